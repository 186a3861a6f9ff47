"""The backward of a convolution by hand: chunk by chunk, each chunk's kernel computed again unless it was kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from calm_pde.engine import plain
from calm_pde.engine.buffers import POOL, SCRATCH
from calm_pde.engine.chunks import Work, shift_of
from calm_pde.engine.orders import Sums
from calm_pde.engine.orders.lifting import room_for_gradient
from calm_pde.engine.orders.products import add_product
from calm_pde.engine.tail import TailGradients, tail_backward
from calm_pde.types import Tensor


class Saved(NamedTuple):
    """What the forward was given, and what it kept."""

    features: Tensor | None
    x: Tensor
    points: Tensor
    queries: Tensor
    filters: Tensor | None
    offset: Tensor | None
    bias: Tensor
    kept: Tensor | None
    hidden: Tensor | None
    lifted: Tensor | None
    tail: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...]

    @classmethod
    def of(cls, tensors: Sequence[Any], num_tail: int) -> Saved:
        fixed, rest = tensors[:10], tensors[10:]
        return cls(*fixed, tail=tuple(rest[:num_tail]), parameters=tuple(rest[num_tail:]))

    @property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """What the forward is differentiated by."""
        return (*self[:7], *self.tail, *self.parameters)

    def formula(self, work: Work, inputs: Sequence[Any]) -> Tensor:
        """The forward as its plain formula of `inputs`, or of others in their place."""
        features, x, points, queries, filters, offset, bias, *rest = inputs
        tail, parameters = tuple(rest[: len(self.tail)]), tuple(rest[len(self.tail) :])
        return plain.convolution(work, features, x, points, queries, filters, offset, bias, tail, parameters)


class Gradients:
    """Sums over all chunks of what each input receives."""

    def __init__(self, work: Work, saved: Saved, needs: tuple[bool, bool, bool]) -> None:
        self.work, self.saved = work, saved
        self.needs_x, self.needs_points, self.needs_queries = needs
        self.whole = work.plan.rows >= saved.x.shape[1]
        self.features = None if saved.features is None else POOL.new(saved.features, *saved.features.shape).zero_()
        self.x = None
        if self.needs_x and not (self.whole and work.order.by_point):  # else it comes in one piece, from what is lifted
            self.x = POOL.new(saved.x, *saved.x.shape).zero_()
        self.filters = None if saved.filters is None else _total(saved.filters)
        self.offset = None if saved.offset is None else _total(saved.offset)
        self.bias = _total(saved.bias)
        self.points = torch.zeros_like(saved.points) if self.needs_points else None
        self.queries = torch.zeros_like(saved.queries) if self.needs_queries else None
        self.tail = TailGradients()
        self.parameters = [torch.zeros_like(value) if value.requires_grad else None for value in saved.parameters]

    def of(self, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of all inputs, in their order."""
        for part in self.work.row_slices(self.saved.x.shape[1]):
            self._add_rows(part, grad)
        totals = (self.filters, self.offset, self.bias, *(self.tail.all() if self.work.tail else ()))
        narrowed = (None if total is None else total.to(self.saved.x.dtype) for total in totals)
        return self.features, self.x, self.points, self.queries, *narrowed, *self.parameters

    def _add_rows(self, part: slice, grad: Tensor) -> None:
        """What some rows give to all sums."""
        order, filters = self.work.order, self.saved.filters
        some_x = self.saved.x[:, part].contiguous()
        lifted = order.lifted(some_x, filters, False) if self.saved.lifted is None else self.saved.lifted
        grad_lifted = None if lifted is None else room_for_gradient(lifted).zero_()
        grad_x = None
        if self.x is not None and lifted is None:
            grad_x = self.x if self.whole else torch.zeros_like(some_x)
        sums = Sums(grad_x, self.filters, grad_lifted)
        for some in self.work.slices():
            self._add_chunk(some, part, some_x, lifted, grad[some, part].contiguous(), sums)
        if filters is not None:
            grad_x = order.unlifted(some_x, filters, sums)
        if self.whole:
            self.x = grad_x
        elif self.x is not None and grad_x is not None:
            self.x[:, part] = grad_x

    def _add_chunk(self, some: slice, part: slice, some_x: Tensor, lifted: Tensor | None, grad: Tensor, sums: Sums) -> None:
        """What some queries give to all sums."""
        work, saved = self.work, self.saved
        left, back = self._geometry(some)
        left, operand = left.to(some_x.dtype), None
        if work.tail:
            if saved.kept is not None:
                before = saved.kept[some, part]
            else:
                operand = work.order.operand(work.chunk(some), left, saved.filters, SCRATCH)
                product = work.order.product(work.chunk(some), operand, saved.filters, some_x, lifted, None)
                before = product + shift_of(left, saved.offset, saved.bias)
            grad_before = SCRATCH.new("grad before", grad, *grad.shape)
            hidden = None if saved.hidden is None else saved.hidden[some]
            tail_backward(before, grad, saved.tail, self.tail, hidden, grad_before, SCRATCH)
            grad = grad_before
        summed = grad.sum(dim=1)
        self.bias += summed.sum(dim=0)
        grad_left = work.order.backward(work.chunk(some), left, operand, saved.filters, some_x, lifted, grad, sums)
        if saved.offset is not None and self.offset is not None:
            add_product(self.offset, left.sum(dim=1).T, summed)
            grad_left += (summed @ saved.offset.T)[:, None]
        back(grad_left)

    def _geometry(self, some: slice) -> tuple[Tensor, Callable[[Tensor], object]]:
        """What the products need of the kernel, and where its gradient goes."""
        saved = self.saved
        if saved.features is not None and self.features is not None:
            return saved.features[some], self.features[some].add_
        moved = self.work.displacement(some, saved.points, saved.queries)
        moved.requires_grad_(self.needs_points or self.needs_queries)
        leaves = [value.detach().requires_grad_(value.requires_grad) for value in saved.parameters]
        with torch.enable_grad():
            again = self.work.evaluated(some, moved, leaves)

        def back(grad_left: Tensor) -> None:
            wanted = [leaf for leaf in (moved, *leaves) if leaf.requires_grad]
            found = iter(torch.autograd.grad(again, wanted, grad_left.to(again.dtype)) if wanted else ())
            if moved.requires_grad:
                self._add_moved(some, next(found))
            for total, leaf in zip(self.parameters, leaves, strict=True):
                if total is not None and leaf.requires_grad:
                    total += next(found)

        return again.detach(), back

    def _add_moved(self, some: slice, away: Tensor) -> None:
        """The gradient of displacements, query − point, to queries and points."""
        if self.queries is not None:
            self.queries[some] += away.sum(dim=1)
        if self.points is not None:
            self.points.index_add_(0, self.work.index[some].flatten(), -away.flatten(0, 1))


def _total(value: Tensor) -> Tensor:
    """Zeros that gradients of many chunks are added to, in single precision at least; contiguous, since views of them are."""
    return torch.zeros(value.shape, dtype=torch.promote_types(value.dtype, torch.float32), device=value.device)
