"""Filters × all points first, then one product per point for all queries that see it, and a sum over each query's neighbors.

Nothing of size query × neighbor × channel is gathered; best with few outputs.
"""

from __future__ import annotations

import torch
from torch.nn.functional import embedding_bag

from calm_pde.engine.buffers import SCRATCH, Scratch
from calm_pde.engine.orders.lifting import OrderByPoint, apart
from calm_pde.engine.orders.order import Chunk, Order, Sizes, given
from calm_pde.engine.orders.products import chosen_rows, write_product
from calm_pde.types import Float, Tensor


class Push(OrderByPoint):
    """Σ_n features · lifted, point by point."""

    name = "push"

    def flops(self, s: Sizes) -> int:
        return 2 * s.lifted * (s.points * s.inputs + s.pairs)

    def moved(self, s: Sizes, chunk: int) -> int:
        gathered = min(s.pairs, s.points * -(-s.queries // chunk))  # each chunk takes out the points that it sees
        return s.lifted * (s.points + 2 * gathered) + 3 * s.pairs * s.outputs * s.rows

    def held(self, s: Sizes, rows: int) -> int:
        return 2 * s.neighbors * s.outputs * rows

    def frozen_form(self, filters: Float[Tensor, "hidden in out"] | None) -> Order:
        if filters is not None and filters.shape[2] == 1 and filters.shape[1] <= len(filters):
            return PushVectors()
        return self

    def product(
        self, chunk: Chunk, operand: Tensor, filters: Tensor | None, x: Tensor, lifted: Tensor | None, place: Tensor | None
    ) -> Float[Tensor, "query row out"]:
        lifted = given(lifted)
        columns, pairs = lifted.shape[-1], chunk.pairs
        answers = SCRATCH.new("answers", lifted, pairs.num_slots + 1, apart(columns, lifted.itemsize))
        answers[-1] = 0
        done = 0
        for group, features in zip(pairs.groups, pairs.packed or pairs.of_pairs(operand), strict=True):
            part = answers[done : done + group.pairs.numel(), :columns].unflatten(0, group.pairs.shape)
            if isinstance(group.points, int):
                write_product(part[0], features[0].to(lifted.dtype), lifted[group.points])
            else:
                write_product(part, features.to(lifted.dtype), lifted.index_select(0, group.points))
            done += group.pairs.numel()
        return embedding_bag(pairs.position, answers, mode="sum")[:, :columns].unflatten(1, (x.shape[1], -1))

    def pulled(
        self, chunk: Chunk, features: Tensor, lifted: Tensor, grad: Tensor, grad_lifted: Tensor
    ) -> Float[Tensor, "query neighbor hidden"]:
        columns, flat, pairs = grad.shape[-1], features.flatten(0, 1), chunk.pairs
        grads = SCRATCH.new("answers", grad, len(grad) + 1, apart(columns, grad.itemsize))
        grads[:-1, :columns] = grad
        grads[-1] = 0
        grad_pairs = SCRATCH.new("grad pairs", flat, pairs.num_slots + 1, flat.shape[1])
        grad_pairs[-1] = 0
        done = 0
        for points, served, queries in pairs.groups:
            answer, given = chosen_rows(grads, queries)[..., :columns], chosen_rows(flat, served).transpose(1, 2)
            part = grad_pairs[done : done + served.numel()].unflatten(0, served.shape)
            if isinstance(points, int):
                torch.mm(answer[0], lifted[points].T, out=part[0])
                grad_lifted[points].addmm_(given[0], answer[0])
            else:
                torch.bmm(answer, lifted.index_select(0, points).transpose(1, 2), out=part)
                grad_lifted.index_add_(0, points, torch.bmm(given, answer))
            done += served.numel()
        return chosen_rows(grad_pairs, pairs.position)


class PushVectors(Push):
    """The frozen form for one output: kernels (query, neighbor, in) are vectors, and what is lifted is x itself."""

    def operand(self, chunk: Chunk, features: Tensor, filters: Tensor | None, scratch: Scratch | None = None) -> Tensor:
        return features if filters is None else features @ filters.squeeze(2)

    def lifted(self, x: Tensor, filters: Tensor | None, kept: bool) -> Float[Tensor, "point in row"]:
        return x.transpose(1, 2).contiguous()
