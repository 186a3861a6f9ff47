"""Filters × the features of every point, with which the orders by point begin."""

from __future__ import annotations

from abc import abstractmethod

import torch

from calm_pde.engine.buffers import POOL, SCRATCH
from calm_pde.engine.orders.order import Chunk, Order, Sums, given
from calm_pde.types import Float, Tensor

_PAGE, _LINE = 4096, 64  # bytes


class OrderByPoint(Order):
    """An order whose product is Σ_n features_qn · lifted_{index(q,n)}, with columns = rows × out."""

    by_point = True

    def lifted(self, x: Tensor, filters: Tensor | None, kept: bool) -> Float[Tensor, "point hidden column"]:
        """filters · x at every point."""
        filters = given(filters)
        (points, rows, _), (hidden, _, outputs) = x.shape, filters.shape
        columns = rows * outputs
        shape = (points, hidden, apart(columns, x.itemsize))
        out = (POOL.new(x, *shape) if kept else SCRATCH.new("lifted", x, *shape))[..., :columns]
        if outputs == 1:  # then a column is a row, and nothing has to be turned
            return torch.bmm(filters.squeeze(-1).expand(points, -1, -1), x.transpose(1, 2), out=out)
        by_row = SCRATCH.new("lifted by row", x, points * rows, hidden * outputs)
        torch.mm(x.flatten(0, 1), filters.transpose(0, 1).flatten(1), out=by_row)
        out.view(points, hidden, rows, outputs).copy_(by_row.view(points, rows, hidden, outputs).transpose(1, 2))
        return out

    def unlifted(self, x: Tensor, filters: Tensor, sums: Sums) -> Float[Tensor, "point row in"]:
        grad, grad_filters = given(sums.lifted), given(sums.filters)
        (points, rows, _), (hidden, inputs, outputs) = x.shape, filters.shape
        if outputs == 1:
            grad_filters += torch.bmm(grad, x).sum(dim=0)[..., None]
            return torch.bmm(grad.transpose(1, 2), filters.squeeze(-1).expand(points, -1, -1), out=POOL.new(x, *x.shape))
        by_row = SCRATCH.new("lifted by row", x, points, rows, hidden, outputs)
        by_row.copy_(grad.view(points, hidden, rows, outputs).transpose(1, 2))
        flat = by_row.view(points * rows, -1)
        grad_filters += (flat.T @ x.flatten(0, 1)).view(hidden, outputs, inputs).transpose(1, 2)
        return torch.mm(flat, filters.transpose(0, 1).flatten(1).T, out=POOL.new(x, points * rows, inputs)).view_as(x)

    @abstractmethod
    def pulled(
        self, chunk: Chunk, features: Tensor, lifted: Tensor, grad: Float[Tensor, "query column"], grad_lifted: Tensor
    ) -> Float[Tensor, "query neighbor hidden"]:
        """The gradient of the features; that of `lifted` is added to `grad_lifted`."""

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
        return self.pulled(chunk, features, given(lifted), grad.flatten(1), given(sums.lifted))


def room_for_gradient(lifted: Float[Tensor, "point hidden column"]) -> Float[Tensor, "point hidden column"]:
    """Laid out as `lifted` is."""
    return SCRATCH.new("grad lifted", lifted, *lifted.shape[:2], lifted.stride(1))[..., : lifted.shape[2]]


def apart(columns: int, itemsize: int) -> int:
    """Numbers from one row to the next, so that not all rows begin at the same place of a page, and thus of the cache."""
    return columns + _LINE // itemsize if columns * itemsize % _PAGE == 0 else columns
