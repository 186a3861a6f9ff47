"""Filters × all points first, then one product with the features spread over all points, zero where a query does not look.

Nothing is gathered and nothing is summed apart; best where a query sees a good part of few points.
"""

from __future__ import annotations

import torch

from calm_pde.engine.buffers import Scratch
from calm_pde.engine.orders.lifting import OrderByPoint
from calm_pde.engine.orders.order import Chunk, Sizes, given, room
from calm_pde.types import Float, Tensor


class Dense(OrderByPoint):
    """Features spread over all points, times `lifted`; its operand is (query, point × hidden)."""

    name = "dense"

    def flops(self, s: Sizes) -> int:
        return 2 * s.lifted * s.points * (s.inputs + s.queries)

    def moved(self, s: Sizes, chunk: int) -> int:
        return 3 * s.lifted * s.points + 2 * s.queries * s.points * s.width

    def held(self, s: Sizes, rows: int) -> int:
        return 2 * s.points * s.width

    def operand(
        self, chunk: Chunk, features: Tensor, filters: Tensor | None, scratch: Scratch | None = None
    ) -> Float[Tensor, "query column"]:
        """Padding has no features and adds nothing to the neighbor it repeats."""
        index = chunk.index
        wide = features.new_zeros(len(index), chunk.num_points, features.shape[-1])
        return wide.scatter_add_(1, index[..., None].expand_as(features), features).flatten(1)

    def product(
        self, chunk: Chunk, operand: Tensor, filters: Tensor | None, x: Tensor, lifted: Tensor | None, place: Tensor | None
    ) -> Float[Tensor, "query row out"]:
        lifted = given(lifted)
        out = room(place, x, len(chunk.index), lifted.shape[-1] // x.shape[1])
        torch.mm(operand, lifted.flatten(0, 1), out=out.flatten(1))
        return out

    def pulled(
        self, chunk: Chunk, features: Tensor, lifted: Tensor, grad: Tensor, grad_lifted: Tensor
    ) -> Float[Tensor, "query neighbor hidden"]:
        grad_lifted.flatten(0, 1).addmm_(self.operand(chunk, features, None).T, grad)
        grad_spread = torch.mm(grad, lifted.flatten(0, 1).T).view(len(chunk.index), len(lifted), -1)
        return grad_spread.gather(1, chunk.index[..., None].expand_as(features))
