"""Where the weights of a CALM-PDE start: scaled so that what flows through it has unit variance on real data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch

from calm_pde.models.calm.hierarchy import Hierarchy
from calm_pde.models.calm.layer import CalmLayer
from calm_pde.records.inputs import Inputs
from calm_pde.types import Bool, Tensor

if TYPE_CHECKING:
    from calm_pde.models.calm.model import CalmPDE

CHANGE = 0.1
"""Deviation of ψ(z) where that of z is one: tokens of ten frames stay of one size."""
_ROUNDS = 12
_CLOSE = 1e-3


@torch.no_grad()
def start_at_unit_variance(model: CalmPDE, given: Inputs) -> None:
    """Filters are scaled until each layer in turn answers with unit variance, and the last map of ψ until ψ has `CHANGE`."""
    training = model.training
    model.eval()  # nothing is dropped
    mask = given.mask
    points = given.points if mask is None else given.points.masked_fill(~mask[..., None], 0.0)
    z, p = _scaled(model.encoder, model.read(given), points, mask=mask)
    if model.processor is not None:
        factor = CHANGE / float(model.processor(z, p).std())
        for parameter in model.processor.to_out.parameters():
            parameter.mul_(factor)
    _scaled(model.decoder, z, p, queries=points, answered=mask)
    model.train(training)


def _scaled(
    layers: Hierarchy,
    x: Tensor,
    points: Tensor,
    queries: Tensor | None = None,
    mask: Bool[Tensor, "batch point"] | None = None,
    answered: Bool[Tensor, "batch query"] | None = None,
) -> tuple[Tensor, Tensor]:
    """What the layers answer once all of them are scaled, and where.

    Args:
        answered: which of the queries from outside are real.
    """
    for layer in layers:
        outside, real = (queries, answered) if layer.queries is None else (None, None)
        _scale(layer, partial(layer.convolve, x, points, outside, mask), real)
        (x, points), mask = layer.convolve(x, points, outside, mask), None
    return x, points


def _scale(layer: CalmLayer, answer: Callable[[], tuple[Tensor, Tensor]], real: Bool[Tensor, "batch query"] | None) -> None:
    """Again and again, since what stands behind a convolution does not answer in proportion."""
    if layer.kernel.filters is None:
        return
    for _ in range(_ROUNDS):
        y, _ = answer()
        deviation = float((y if real is None else y[real]).std())
        if abs(deviation - 1) < _CLOSE or not deviation > 0:
            return
        layer.kernel.filters.mul_(1 / deviation)
