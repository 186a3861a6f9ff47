"""Continuous convolution in bounded memory: chunks over queries, forward and backward; the backward computes kernels again.

A layer's work behind its door is one differentiable function of features, positions and weights. Kernels and gathered neighbors
exist for one chunk at a time; the convolution's output, the MLP's hidden layer and the kernel's features are kept from forward
to backward where the plan finds room for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.nn.functional import gelu, linear

from calm_pde.geometry import wrap
from calm_pde.nn.cost import Plan
from calm_pde.nn.precision import autocast_type, full_precision
from calm_pde.nn.products import (
    SCRATCH,
    PushPlan,
    Scratch,
    dense_product,
    dense_product_backward,
    kernel_product,
    kernel_product_backward,
    pool_product,
    pool_product_backward,
    push_plan,
    push_product,
    push_product_backward,
)
from calm_pde.types import Bool, Float, Int, Tensor

gelu_backward = torch.ops.aten.gelu_backward
_MANY_ROWS = 64  # from here on, one product per query with the rows as columns is as fast as one product over all

Geometry = Callable[..., Tensor]
"""(displacement, valid, query ids, *parameters) ↦ features (query, neighbor, hidden) or matrices (query, neighbor, in, out)."""


@dataclass
class Work:
    """What a convolution does, beside the tensors that it differentiates."""

    plan: Plan
    geometry: Geometry
    periodic: tuple[bool, ...]
    index: Int[Tensor, "query neighbor"]
    valid: Bool[Tensor, "query neighbor"]
    low_rank: bool
    """Whether the geometry gives features for the filters, or the kernel's matrices themselves."""
    tail: bool
    left: Tensor | None = None
    """The geometry's answer for all queries, where it is frozen."""
    shift: Float[Tensor, "query out 1"] | None = None
    """Σ features·offset + bias, where it is frozen."""
    pushes: dict[tuple[int, int], PushPlan] = field(default_factory=dict)

    def chunks(self) -> Iterator[slice]:
        starts = range(0, len(self.index), self.plan.chunk)
        for start in starts[:2] if self.index.is_meta else starts:  # without data, what one chunk holds, all hold
            yield slice(start, min(start + self.plan.chunk, len(self.index)))

    def rows(self, count: int) -> list[slice]:
        return [slice(start, min(start + self.plan.rows, count)) for start in range(0, count, self.plan.rows)]

    def push_plan(self, some: slice) -> PushPlan:
        key = (some.start, some.stop)
        if key not in self.pushes:
            self.pushes[key] = push_plan(self.index[some], self.valid[some])
        return self.pushes[key]

    def displacement(self, some: slice, points: Tensor, queries: Tensor) -> Tensor:
        return wrap(queries[some, None] - points[self.index[some]], self.periodic)

    def left_of(self, some: slice, points: Tensor, queries: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
        if self.left is not None:
            return self.left[some]
        return self.geometry(self.displacement(some, points, queries), self.valid[some], _ids(some, queries), *parameters)

    def shift_of(self, some: slice, left: Tensor, offset: Tensor | None, bias: Tensor) -> Tensor:
        """What is the same for all rows: the pre-map's bias through the kernel, and the layer's own bias."""
        if self.shift is not None:
            return self.shift[some]
        return bias[:, None] if offset is None else torch.addmm(bias, left.sum(dim=1), offset)[..., None]


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
    """The same work with its geometry evaluated for good: matrices for the order `kernel`, features for the others."""
    lefts, shifts = [], []
    for some in work.chunks():
        left = work.left_of(some, points, queries, parameters)
        shifts.append(work.shift_of(some, left, offset, bias).expand(len(left), -1, -1))
        lefts.append(_matrices(left, filters) if work.plan.order == "kernel" and filters is not None else left)
    low_rank = work.low_rank and work.plan.order != "kernel"
    return replace(work, left=torch.cat(lefts), shift=torch.cat(shifts), low_rank=low_rank)


def convolve(
    work: Work,
    x: Float[Tensor, "point in row"],
    points: Float[Tensor, "point dim"],
    queries: Float[Tensor, "query dim"],
    filters: Float[Tensor, "hidden in out"] | None,
    offset: Float[Tensor, "hidden out"] | None,
    bias: Float[Tensor, "out"],
    tail: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
) -> Float[Tensor, "query out row"]:
    """Σ features·filters·x + Σ features·offset + bias, and behind it, with a tail, σ and y + W₂ σ(W₁ y + b₁) + b₂.

    Under autocast the products run in its type; displacements, Fourier phases and softmax stay as they are.
    """
    narrow = autocast_type(x)
    if narrow is not None:
        x, bias, tail = x.to(narrow), bias.to(narrow), tuple(value.to(narrow) for value in tail)
        filters = None if filters is None else filters.to(narrow)
        offset = None if offset is None else offset.to(narrow)
        with full_precision(x):
            return convolve(work, x, points, queries, filters, offset, bias, tail, parameters)
    if torch.compiler.is_compiling():  # a tracer sees the plain formula and finds its own backward
        return _traced(work, x, points, queries, filters, offset, bias, tail, parameters)
    features, learns = None, torch.is_grad_enabled()
    if learns and work.plan.keep_geometry and work.left is None:
        features = work.left_of(slice(0, len(work.index)), points, queries, parameters)
        points, queries, parameters = points.detach(), queries.detach(), ()
    return _Convolution.apply(work, learns, len(tail), features, x, points, queries, filters, offset, bias, *tail, *parameters)  # pyright: ignore[reportReturnType]


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, work: Work, learns: bool, num_tail: int, features, x, points, queries, filters, offset, bias, *rest
    ) -> Tensor:
        tail, parameters = rest[:num_tail], rest[num_tail:]
        rows, num_queries = x.shape[-1], len(work.index)
        y = x.new_empty(num_queries, len(bias), rows)
        kept = torch.empty_like(y) if learns and work.tail and work.plan.keep else None
        hidden = x.new_empty(num_queries, len(tail[0]) * rows) if learns and work.tail and work.plan.keep_hidden else None
        scratch = SCRATCH
        for part in work.rows(rows):
            some_x = x[..., part].contiguous()
            z = _filtered(some_x, filters, scratch) if work.plan.by_point else None
            for some in work.chunks():
                left = work.left_of(some, points, queries, parameters) if features is None else features[some]
                left = left.to(x.dtype)
                place = None if kept is None else kept[some, :, part]
                before = _product(work, some, left, filters, some_x, z, scratch, place)
                before += work.shift_of(some, left, offset, bias)
                if place is not None and before is not place:
                    place.copy_(before)
                if work.tail:
                    _tail(before, tail, y[some, :, part], scratch, None if hidden is None else hidden[some])
                else:
                    y[some, :, part] = before
        ctx.work, ctx.num_tail = work, num_tail
        ctx.save_for_backward(features, x, points, queries, filters, offset, bias, kept, hidden, *rest)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with full_precision(grads[0]):
            return _Convolution.gradients(ctx, grads[0])

    @staticmethod
    def gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        work: Work = ctx.work
        features, x, points, queries, filters, offset, bias, kept, hidden, *rest = ctx.saved_tensors
        tail, parameters = tuple(rest[: ctx.num_tail]), tuple(rest[ctx.num_tail :])
        needs = dict(zip(("x", "points", "queries"), ctx.needs_input_grad[4:7], strict=True))
        grad_features = None if features is None else torch.zeros_like(features)
        grad_x = x.new_zeros(x.shape) if needs["x"] else None
        grad_filters = None if filters is None else filters.new_zeros(filters.shape)  # contiguous: added to through views
        grad_offset = None if offset is None else torch.zeros_like(offset)
        grad_bias = torch.zeros_like(bias)
        grad_points = torch.zeros_like(points) if needs["points"] else None
        grad_queries = torch.zeros_like(queries) if needs["queries"] else None
        grad_tail = [torch.zeros_like(value) for value in tail]
        grad_parameters = [torch.zeros_like(value) if value.requires_grad else None for value in parameters]

        def geometry(some: slice) -> tuple[Tensor, Callable[[Tensor], object]]:
            """What the products need of the kernel, and where its gradient goes."""
            if features is not None and grad_features is not None:
                return features[some], grad_features[some].add_
            moved = work.displacement(some, points, queries).requires_grad_(needs["points"] or needs["queries"])
            leaves = [value.detach().requires_grad_(value.requires_grad) for value in parameters]
            with torch.enable_grad():
                again = work.geometry(moved, work.valid[some], _ids(some, queries), *leaves)

            def back(grad_left: Tensor) -> None:
                wanted = [leaf for leaf in (moved, *leaves) if leaf.requires_grad]
                found = iter(torch.autograd.grad(again, wanted, grad_left.to(again.dtype)) if wanted else ())
                if moved.requires_grad:
                    away = next(found)
                    if grad_queries is not None:
                        grad_queries[some] += away.sum(dim=1)
                    if grad_points is not None:
                        grad_points.index_add_(0, work.index[some].flatten(), -away.flatten(0, 1))
                for total, leaf in zip(grad_parameters, leaves, strict=True):
                    if total is not None and leaf.requires_grad:
                        total += next(found)

            return again.detach(), back

        scratch = SCRATCH
        for part in work.rows(x.shape[-1]):
            some_x = x[..., part].contiguous()
            z = _filtered(some_x, filters, scratch) if work.plan.by_point and filters is not None else None
            grad_z = None if z is None else scratch.new("grad z", z, *z.shape).zero_()
            whole = part == slice(0, x.shape[-1])
            part_grad_x = None
            if grad_x is not None and z is None:
                part_grad_x = grad_x if whole else torch.zeros_like(some_x)
            for some in work.chunks():
                left, back = geometry(some)
                left = left.to(x.dtype)
                some_grad = grad[some, :, part].contiguous()
                if work.tail:
                    before = None if kept is None else kept[some, :, part]
                    if before is None:
                        before = _product(work, some, left, filters, some_x, z, scratch) + work.shift_of(
                            some, left, offset, bias
                        )
                    some_hidden = None if hidden is None else hidden[some]
                    some_grad = _tail_backward(before, some_grad, tail, grad_tail, scratch, some_hidden)
                summed = some_grad.sum(dim=-1)
                grad_bias += summed.sum(dim=0)
                grad_left = _product_backward(
                    work, some, left, filters, some_x, z, some_grad, part_grad_x, grad_filters, grad_z, scratch
                )
                if offset is not None and grad_offset is not None:
                    grad_offset.addmm_(left.sum(dim=1).T, summed)
                    grad_left += (summed @ offset.T)[:, None]
                back(grad_left)
            if z is not None and grad_z is not None and filters is not None and grad_filters is not None:
                part_grad_x = _filtered_backward(some_x, filters, grad_z, grad_filters)
            if grad_x is not None and part_grad_x is not None and part_grad_x is not grad_x:
                if whole:
                    grad_x = part_grad_x
                else:
                    grad_x[..., part] = part_grad_x
        return (
            None,
            None,
            None,
            grad_features,
            grad_x,
            grad_points,
            grad_queries,
            grad_filters,
            grad_offset,
            grad_bias,
            *grad_tail,
            *grad_parameters,
        )


def _traced(
    work: Work,
    x: Tensor,
    points: Tensor,
    queries: Tensor,
    filters: Tensor | None,
    offset: Tensor | None,
    bias: Tensor,
    tail: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
) -> Tensor:
    everything = slice(0, len(work.index))
    left = work.left_of(everything, points, queries, parameters)
    matrices = _matrices(left, filters) if work.low_rank and filters is not None else left
    before = kernel_product(matrices, x, work.index) + work.shift_of(everything, left, offset, bias)
    if not work.tail:
        return before
    expand, expand_bias, reduce, reduce_bias = tail
    y = gelu(before).transpose(1, 2)
    return (y + linear(gelu(linear(y, expand, expand_bias)), reduce, reduce_bias)).transpose(1, 2)


def _ids(some: slice, queries: Tensor) -> Tensor:
    return torch.arange(some.start, min(some.stop, len(queries)), device=queries.device)


def _matrices(features: Tensor, filters: Tensor, scratch: Scratch | None = None) -> Tensor:
    shape = (*features.shape[:2], *filters.shape[1:])
    out = None if scratch is None else scratch.new("matrices", features, shape[0] * shape[1], shape[2] * shape[3])
    return torch.mm(features.flatten(0, 1), filters.flatten(1), out=out).view(shape)


def _filtered(x: Tensor, filters: Tensor, scratch: Scratch) -> Float[Tensor, "point hidden column"]:
    """z = filters · x at every point, with columns = out × rows."""
    across = filters.transpose(1, 2).flatten(0, 1)  # (hidden × out, in)
    out = scratch.new("z", x, len(x), len(across), x.shape[-1])
    return torch.bmm(across.expand(len(x), -1, -1), x, out=out).view(len(x), len(filters), -1)


def _filtered_backward(x: Tensor, filters: Tensor, grad_z: Tensor, grad_filters: Tensor) -> Tensor:
    across = filters.transpose(1, 2).flatten(0, 1)
    by_row = grad_z.view(len(x), len(across), -1)
    across_grad = torch.bmm(by_row, x.transpose(1, 2)).sum(dim=0)
    grad_filters += across_grad.view(len(filters), -1, filters.shape[1]).transpose(1, 2)
    return torch.bmm(across.T.expand(len(x), -1, -1), by_row)


def _product(
    work: Work,
    some: slice,
    left: Tensor,
    filters: Tensor | None,
    x: Tensor,
    z: Tensor | None,
    scratch: Scratch,
    out: Tensor | None = None,
) -> Float[Tensor, "query out row"]:
    index, outputs = work.index[some], left.shape[-1] if filters is None else filters.shape[-1]
    if out is None or not out.is_contiguous():
        out = scratch.new("before", x, len(left), outputs, x.shape[-1])
    if z is not None and work.plan.order == "dense":
        dense_product(left, z, index, out.flatten(1))
        return out
    if z is not None:
        return push_product(left, z, work.push_plan(some), scratch).view(len(left), -1, x.shape[-1])
    if work.plan.order == "pool" and filters is not None:
        return pool_product(left, filters, x, index).contiguous()
    matrices = _matrices(left, filters, scratch) if work.low_rank and filters is not None else left
    return kernel_product(matrices, x, index, scratch, out)


def _product_backward(
    work: Work,
    some: slice,
    left: Tensor,
    filters: Tensor | None,
    x: Tensor,
    z: Tensor | None,
    grad: Tensor,
    grad_x: Tensor | None,
    grad_filters: Tensor | None,
    grad_z: Tensor | None,
    scratch: Scratch,
) -> Tensor:
    index = work.index[some]
    if z is not None and grad_z is not None and work.plan.order == "dense":
        return dense_product_backward(left, z, index, grad.flatten(1), grad_z)
    if z is not None and grad_z is not None:
        return push_product_backward(left, z, work.push_plan(some), grad.flatten(1), grad_z)
    if filters is None or grad_filters is None:
        return kernel_product_backward(left, x, index, grad, grad_x, scratch)
    if work.plan.order == "pool":
        return pool_product_backward(left, filters, x, index, grad, grad_x, grad_filters)
    grad_matrices = kernel_product_backward(_matrices(left, filters, scratch), x, index, grad, grad_x, scratch)
    grad_matrices = grad_matrices.flatten(2).flatten(0, 1)
    grad_filters.flatten(1).addmm_(left.flatten(0, 1).T, grad_matrices)
    return (grad_matrices @ filters.flatten(1).T).view_as(left)


def _tail(before: Tensor, tail: tuple[Tensor, ...], out: Tensor, scratch: Scratch, hidden: Tensor | None) -> None:
    """y + W₂ σ(W₁ y + b₁) + b₂ with y = σ(before), all (query, channel, row); W₁ y + b₁ comes to lie in `hidden`."""
    expand, expand_bias, reduce, reduce_bias = tail
    many, channels, rows = before.shape
    if rows < _MANY_ROWS:
        y = scratch.new("y", before, many, rows, channels).copy_(before.transpose(1, 2)).flatten(0, 1)
        torch.ops.aten.gelu.out(y, out=y)
        inside = scratch.new("hidden", y, len(y), len(expand)) if hidden is None else hidden.view(-1, len(expand))
        torch.addmm(expand_bias, y, expand.T, out=inside)
        active = _gelu(inside, scratch)
        y += reduce_bias
        y.addmm_(active, reduce.T)
        out.copy_(y.view(many, rows, channels).transpose(1, 2))
        return
    y = _with_ones(before, scratch)
    active = _gelu(_expanded(y, expand, expand_bias, scratch, hidden), scratch)
    torch.add(y[:, :-1], reduce_bias[:, None], out=out)
    out.baddbmm_(reduce.expand(many, -1, -1), active)


def _tail_backward(
    before: Tensor,
    grad: Tensor,
    tail: tuple[Tensor, ...],
    grads: list[Tensor],
    scratch: Scratch,
    hidden: Tensor | None,
) -> Float[Tensor, "query out row"]:
    """The gradient of `before`; those of the weights are added to `grads`."""
    expand, expand_bias, reduce, _ = tail
    if before.shape[-1] < _MANY_ROWS:
        rows, channels = before.transpose(1, 2).reshape(-1, len(reduce)), grad.transpose(1, 2).reshape(-1, len(reduce))
        y = gelu(rows)
        inside = linear(y, expand, expand_bias) if hidden is None else hidden.view(-1, len(expand))
        grads[2].addmm_(channels.T, gelu(inside))
        grads[3] += channels.sum(dim=0)
        grad_hidden = gelu_backward(channels @ reduce, inside)
        grads[0].addmm_(grad_hidden.T, y)
        grads[1] += grad_hidden.sum(dim=0)
        grad_rows = gelu_backward(torch.addmm(channels, grad_hidden, expand), rows)
        return grad_rows.view(len(before), -1, len(reduce)).transpose(1, 2).contiguous()
    many = len(before)
    y = _with_ones(before, scratch)
    inside = _expanded(y, expand, expand_bias, scratch, None) if hidden is None else hidden.view(many, len(expand), -1)
    active = _gelu(inside, scratch)
    grads[2] += torch.bmm(grad, active.transpose(1, 2)).sum(dim=0)
    grads[3] += grad.sum(dim=(0, 2))
    grad_hidden = torch.bmm(reduce.T.expand(many, -1, -1), grad, out=active)
    torch.ops.aten.gelu_backward.grad_input(grad_hidden, inside, grad_input=grad_hidden)
    both = torch.bmm(y, grad_hidden.transpose(1, 2)).sum(dim=0)
    grads[0] += both[:-1].T
    grads[1] += both[-1]
    grad_y = torch.baddbmm(grad, expand.T.expand(many, -1, -1), grad_hidden)
    return torch.ops.aten.gelu_backward.grad_input(grad_y, before, grad_input=grad_y)


def _with_ones(before: Tensor, scratch: Scratch) -> Float[Tensor, "query channel row"]:
    """σ(before) and a channel of ones behind it, whose weight is the bias: no pass of its own adds it or sums its gradient."""
    y = scratch.new("y", before, len(before), before.shape[1] + 1, before.shape[2])
    y[:, :-1] = _gelu(before, scratch)  # not straight to its place: in float32, PyTorch loses what gelu writes between strides
    y[:, -1] = 1
    return y


def _gelu(x: Tensor, scratch: Scratch) -> Tensor:
    return torch.ops.aten.gelu.out(x, out=scratch.new("active", x, *x.shape))


def _expanded(
    y: Float[Tensor, "query channel row"], expand: Tensor, bias: Tensor, scratch: Scratch, kept: Tensor | None
) -> Float[Tensor, "query hidden row"]:
    shape = (len(y), len(expand), y.shape[-1])
    out = scratch.new("hidden", y, *shape) if kept is None else kept.view(shape)
    return torch.bmm(torch.cat([expand, bias[:, None]], dim=1).expand(len(y), -1, -1), y, out=out)
