"""Features × neighbors first, then the filters; best where neighbors are many and rows few."""

from __future__ import annotations

import torch

from calm_pde.engine.orders.order import Chunk, Order, Sizes, Sums, given, room
from calm_pde.engine.orders.products import add_product, chosen_rows
from calm_pde.types import Float, Tensor


class Pool(Order):
    """Σ_h (Σ_n features·x)·filters."""

    name = "pool"

    def flops(self, s: Sizes) -> int:
        return 2 * s.queries * s.width * s.inputs * s.rows * (s.neighbors + s.outputs)

    def moved(self, s: Sizes, chunk: int) -> int:
        return 2 * s.pairs * s.inputs * s.rows + 3 * s.queries * s.width * s.inputs * s.rows

    def held(self, s: Sizes, rows: int) -> int:
        return 2 * s.neighbors * s.inputs * rows + 3 * s.width * s.inputs * rows

    def product(
        self, chunk: Chunk, operand: Tensor, filters: Tensor | None, x: Tensor, lifted: Tensor | None, place: Tensor | None
    ) -> Float[Tensor, "query row out"]:
        filters = given(filters)
        out = room(place, x, len(chunk.index), filters.shape[-1])
        gathered = chosen_rows(x.flatten(1), chunk.index)
        torch.mm(_pooled(operand, gathered, x), filters.flatten(0, 1), out=out.flatten(0, 1))
        return out

    def backward(
        self,
        chunk: Chunk,
        features: Tensor,
        operand: Tensor | None,
        filters: Tensor | None,
        x: Tensor,
        lifted: Tensor | None,
        grad: Tensor,
        sums: Sums,
    ) -> Tensor:
        filters, grad_filters = given(filters), given(sums.filters)
        gathered, by_row = chosen_rows(x.flatten(1), chunk.index), grad.flatten(0, 1)
        add_product(grad_filters.flatten(0, 1), _pooled(features, gathered, x).T, by_row)
        grad_pooled = (by_row @ filters.flatten(0, 1).T).view(len(gathered), x.shape[1], features.shape[-1], -1)
        grad_pooled = grad_pooled.transpose(1, 2).flatten(2)
        if sums.x is not None:
            sums.x.index_add_(0, chunk.index.flatten(), torch.bmm(features, grad_pooled).view(-1, *x.shape[1:]))
        return torch.bmm(gathered, grad_pooled.transpose(1, 2))


def _pooled(features: Tensor, gathered: Tensor, x: Tensor) -> Float[Tensor, "query_row column"]:
    """Σ_n features_qnh · x_{index(q,n)ri} as (query × row, hidden × in)."""
    pooled = torch.bmm(features.transpose(1, 2), gathered).unflatten(2, x.shape[1:])
    return pooled.transpose(1, 2).flatten(2).flatten(0, 1)
