"""Matrices of every pair first, then a product with one gathered neighbor of all queries at a time; best for many rows."""

from __future__ import annotations

import torch

from calm_pde.engine.buffers import SCRATCH, Scratch
from calm_pde.engine.orders.order import Chunk, Order, Sizes, Sums, room
from calm_pde.engine.orders.products import add_product, write_product
from calm_pde.types import Float, Tensor


class Kernel(Order):
    """Σ_n (Σ_h features·filters)·x; its operand is the matrices (neighbor, query, in, out)."""

    name = "kernel"
    low_rank = False
    query_axis = 1

    def flops(self, s: Sizes) -> int:
        return 2 * s.pairs * s.inputs * s.outputs * (s.rows + (0 if s.frozen else s.width))

    def moved(self, s: Sizes, chunk: int) -> int:
        return s.pairs * s.inputs * (s.outputs + 2 * s.rows)

    def held(self, s: Sizes, rows: int) -> int:
        return 2 * s.neighbors * s.inputs * (s.outputs + rows)

    def operand(self, chunk: Chunk, features: Tensor, filters: Tensor | None, scratch: Scratch | None = None) -> Tensor:
        """features · filters, with each neighbor's matrices of all queries together."""
        if filters is None:
            return features.transpose(0, 1).contiguous()
        by_neighbor = features.transpose(0, 1).flatten(0, 1)
        size = (len(by_neighbor), filters[0].numel())
        out = features.new_empty(size) if scratch is None else scratch.new("matrices", features, *size)
        matrices = write_product(out, by_neighbor, filters.flatten(1))
        return matrices.view(features.shape[1], features.shape[0], *filters.shape[1:])

    def product(
        self, chunk: Chunk, operand: Tensor, filters: Tensor | None, x: Tensor, lifted: Tensor | None, place: Tensor | None
    ) -> Float[Tensor, "query row out"]:
        index = chunk.index
        out = room(place, x, len(index), operand.shape[-1])
        near = SCRATCH.new("gathered", x, len(index), *x.shape[1:])
        for rank, chosen in enumerate(index.unbind(dim=1)):
            torch.index_select(x, 0, chosen, out=near)
            if rank == 0:
                torch.bmm(near, operand[rank], out=out)
            else:
                out.baddbmm_(near, operand[rank])
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
        if operand is None:
            operand = self.operand(chunk, features, filters, SCRATCH)
        grad_matrices = _through_products(chunk, operand, x, grad, sums.x)
        if filters is None or sums.filters is None:
            return grad_matrices.transpose(0, 1)
        flat = grad_matrices.flatten(2).flatten(0, 1)
        add_product(sums.filters.flatten(1), features.transpose(0, 1).flatten(0, 1).T, flat)
        return (flat @ filters.flatten(1).T).view(*grad_matrices.shape[:2], -1).transpose(0, 1)


def _through_products(
    chunk: Chunk, matrices: Tensor, x: Tensor, grad: Tensor, grad_x: Tensor | None
) -> Float[Tensor, "neighbor query in out"]:
    """The gradient of the matrices; that of x is added to `grad_x`."""
    near = SCRATCH.new("gathered", x, len(chunk.index), *x.shape[1:])
    grad_matrices = SCRATCH.new("grad matrices", matrices, *matrices.shape)
    for rank, chosen in enumerate(chunk.index.unbind(dim=1)):
        torch.index_select(x, 0, chosen, out=near)
        torch.bmm(near.transpose(1, 2), grad, out=grad_matrices[rank])
        if grad_x is not None:  # the gathered neighbors have served, so their gradient may take their place
            torch.bmm(grad, matrices[rank].transpose(1, 2), out=near)
            grad_x.index_add_(0, chosen, near)
    return grad_matrices
