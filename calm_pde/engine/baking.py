"""The geometry of a convolution evaluated for good."""

from __future__ import annotations

from dataclasses import replace

import torch

from calm_pde.engine.chunks import Work, shift_of
from calm_pde.types import Tensor


@torch.no_grad()
def frozen(
    work: Work,
    points: Tensor,
    queries: Tensor,
    filters: Tensor | None,
    offset: Tensor | None,
    bias: Tensor,
    parameters: tuple[Tensor, ...],
) -> Work:
    """The same work in the frozen form of its order, which asks nothing of points and queries any more."""
    order, operands, shifts = work.order.frozen_form(filters), [], []
    for some in work.slices():
        features = work.features(some, points, queries, parameters)
        shifts.append(shift_of(features, offset, bias).expand(len(features), -1, -1))
        operands.append(order.operand(work.chunk(some), features, filters))
    return replace(work, order=order, operand=torch.cat(operands, dim=order.query_axis), shift=torch.cat(shifts), known={})
