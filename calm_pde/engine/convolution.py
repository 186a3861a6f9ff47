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

from calm_pde.engine.buffers import POOL, SCRATCH, Scratch
from calm_pde.engine.plan import Plan
from calm_pde.engine.precision import autocast_type, full_precision
from calm_pde.engine.products import (
    PushPlan,
    add_product,
    dense_product,
    dense_product_backward,
    filtered,
    filtered_backward,
    kernel_matrices,
    kernel_matrices_backward,
    kernel_product,
    kernel_product_backward,
    pool_product,
    pool_product_backward,
    push_plan,
    push_product,
    push_product_backward,
    room_for_gradient,
    spread,
)
from calm_pde.engine.tail import TailGradients, tail_backward, tail_forward
from calm_pde.geometry import wrap
from calm_pde.types import Bool, Float, Int, Tensor

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
    tail: bool
    operand: Tensor | None = None
    """What the products take of the kernel for all queries, where it is frozen: see `_operand`."""
    shift: Float[Tensor, "query 1 out"] | None = None
    """Σ features·offset + bias, where it is frozen."""
    vectors: bool = False
    """Whether a frozen operand of the order `push` holds kernels (query, neighbor, in) to one output, so that z is x itself."""
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
            found = push_plan(self.index[some], self.valid[some])
            self.pushes[key] = found if self.operand is None else found.with_features(self.operand[some])
        return self.pushes[key]

    @property
    def query_axis(self) -> int:
        """Where queries stand in an operand."""
        return 1 if self.plan.order == "kernel" else 0

    def displacement(self, some: slice, points: Tensor, queries: Tensor) -> Tensor:
        return wrap(queries[some, None] - points[self.index[some]], self.periodic)

    def features(self, some: slice, points: Tensor, queries: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
        """The geometry's answer for some queries."""
        return self.geometry(self.displacement(some, points, queries), self.valid[some], _ids(some, queries), *parameters)


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
    """The same work with its geometry evaluated for good."""
    operands, shifts = [], []
    vectors = filters is not None and work.plan.order == "push" and filters.shape[2] == 1 and filters.shape[1] <= len(filters)
    for some in work.chunks():
        features = work.features(some, points, queries, parameters)
        shifts.append(_shift(features, offset, bias).expand(len(features), -1, -1))
        if vectors and filters is not None:
            operands.append(features @ filters.squeeze(2))
        else:
            operands.append(_operand(work, some, features, filters, len(points)))
    return replace(work, operand=torch.cat(operands, dim=work.query_axis), shift=torch.cat(shifts), vectors=vectors)


def convolve(
    work: Work,
    x: Float[Tensor, "point row in"],
    points: Float[Tensor, "point dim"],
    queries: Float[Tensor, "query dim"],
    filters: Float[Tensor, "hidden in out"] | None,
    offset: Float[Tensor, "hidden out"] | None,
    bias: Float[Tensor, "out"],
    tail: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
) -> Float[Tensor, "query row out"]:
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
    if learns and work.plan.keep_geometry and work.operand is None:
        features = work.features(slice(0, len(work.index)), points, queries, parameters)
        points, queries, parameters = points.detach(), queries.detach(), ()
    return _Convolution.apply(work, learns, len(tail), features, x, points, queries, filters, offset, bias, *tail, *parameters)  # pyright: ignore[reportReturnType]


class _Convolution(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, work: Work, learns: bool, num_tail: int, features, x, points, queries, filters, offset, bias, *rest
    ) -> Tensor:
        tail, parameters = rest[:num_tail], rest[num_tail:]
        rows, num_queries = x.shape[1], len(work.index)
        y = POOL.new(x, num_queries, rows, len(bias))
        kept = POOL.new(x, *y.shape) if learns and work.tail and work.plan.keep else None
        hidden = POOL.new(x, num_queries, rows, len(tail[0])) if learns and work.tail and work.plan.keep_hidden else None
        z, keep_z = None, learns and work.plan.keep_z
        for part in work.rows(rows):
            some_x = x[:, part].contiguous()
            if work.plan.by_point:
                z = some_x.transpose(1, 2).contiguous() if work.vectors else filtered(some_x, filters, SCRATCH, keep_z)
            for some in work.chunks():
                if work.operand is None:
                    left = work.features(some, points, queries, parameters) if features is None else features[some]
                    left = left.to(x.dtype)
                    operand, shift = _operand(work, some, left, filters, len(x), SCRATCH), _shift(left, offset, bias)
                else:
                    operand = work.operand.narrow(work.query_axis, some.start, some.stop - some.start).to(x.dtype)
                    shift = bias if work.shift is None else work.shift[some]
                out = y[some, part]
                place = kept[some, part] if kept is not None else None if work.tail else out
                before = _product(work, some, operand, filters, some_x, z, place)
                before += shift
                if place is not None and before is not place:
                    before = place.copy_(before)
                if work.tail:
                    tail_forward(before, tail, out, None if hidden is None else hidden[some], SCRATCH)
        ctx.work, ctx.num_tail = work, num_tail
        ctx.save_for_backward(features, x, points, queries, filters, offset, bias, kept, hidden, z if keep_z else None, *rest)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        with full_precision(grads[0]):
            return _Convolution.gradients(ctx, grads[0])

    @staticmethod
    def gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        work: Work = ctx.work
        features, x, points, queries, filters, offset, bias, kept, hidden, kept_z, *rest = ctx.saved_tensors
        tail, parameters = tuple(rest[: ctx.num_tail]), tuple(rest[ctx.num_tail :])
        needs = dict(zip(("x", "points", "queries"), ctx.needs_input_grad[4:7], strict=True))
        grad_features = None if features is None else POOL.new(features, *features.shape).zero_()
        whole = work.plan.rows >= x.shape[1]
        grad_x = None
        if needs["x"] and not (whole and work.plan.by_point):  # else it comes in one piece, from z
            grad_x = POOL.new(x, *x.shape).zero_()
        grad_filters = None if filters is None else _total(filters)
        grad_offset = None if offset is None else _total(offset)
        grad_bias = _total(bias)
        grad_points = torch.zeros_like(points) if needs["points"] else None
        grad_queries = torch.zeros_like(queries) if needs["queries"] else None
        grad_tail = TailGradients()
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

        for part in work.rows(x.shape[1]):
            some_x = x[:, part].contiguous()
            z = kept_z
            if z is None and work.plan.by_point and filters is not None:
                z = filtered(some_x, filters, SCRATCH, False)
            grad_z = None if z is None else room_for_gradient(z, SCRATCH).zero_()
            part_grad_x = None
            if grad_x is not None and z is None:
                part_grad_x = grad_x if whole else torch.zeros_like(some_x)
            for some in work.chunks():
                left, back = geometry(some)
                left = left.to(x.dtype)
                some_grad = grad[some, part].contiguous()
                operand = None
                if work.tail:
                    if kept is not None:
                        before = kept[some, part]
                    else:
                        operand = _operand(work, some, left, filters, len(x), SCRATCH)
                        before = _product(work, some, operand, filters, some_x, z) + _shift(left, offset, bias)
                    grad_before = SCRATCH.new("grad before", grad, *some_grad.shape)
                    tail_backward(
                        before, some_grad, tail, grad_tail, None if hidden is None else hidden[some], grad_before, SCRATCH
                    )
                    some_grad = grad_before
                summed = some_grad.sum(dim=1)
                grad_bias += summed.sum(dim=0)
                grad_left = _product_backward(
                    work, some, left, operand, filters, some_x, z, some_grad, part_grad_x, grad_filters, grad_z
                )
                if offset is not None and grad_offset is not None:
                    add_product(grad_offset, left.sum(dim=1).T, summed)
                    grad_left += (summed @ offset.T)[:, None]
                back(grad_left)
            if z is not None and grad_z is not None and filters is not None and grad_filters is not None:
                part_grad_x = filtered_backward(some_x, filters, grad_z, grad_filters, SCRATCH)
            if whole:
                grad_x = part_grad_x
            elif grad_x is not None and part_grad_x is not None:
                grad_x[:, part] = part_grad_x
        return (
            None,
            None,
            None,
            grad_features,
            grad_x,
            grad_points,
            grad_queries,
            _like(grad_filters, x),
            _like(grad_offset, x),
            _like(grad_bias, x),
            *(_like(total, x) for total in (grad_tail.all() if work.tail else ())),
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
    features = work.features(slice(0, len(work.index)), points, queries, parameters)
    matrices = features if filters is None else torch.einsum("qnh,hio->qnio", features, filters)
    before = torch.einsum("qnri,qnio->qro", x[work.index], matrices) + _shift(features, offset, bias)
    if not work.tail:
        return before
    expand, expand_bias, reduce, reduce_bias = tail
    y = gelu(before)
    return y + linear(gelu(linear(y, expand, expand_bias)), reduce, reduce_bias)


def _total(value: Tensor) -> Tensor:
    """Zeros that gradients of many chunks are added to, in single precision at least; contiguous, since views of them are."""
    return torch.zeros(value.shape, dtype=torch.promote_types(value.dtype, torch.float32), device=value.device)


def _like(total: Tensor | None, x: Tensor) -> Tensor | None:
    return None if total is None else total.to(x.dtype)


def _ids(some: slice, queries: Tensor) -> Tensor:
    return torch.arange(some.start, min(some.stop, len(queries)), device=queries.device)


def _shift(features: Tensor, offset: Tensor | None, bias: Tensor) -> Tensor:
    """What is the same for all rows: the pre-map's bias through the kernel, and the layer's own bias."""
    return bias[None, None] if offset is None else torch.addmm(bias, features.sum(dim=1), offset)[:, None]


def _operand(
    work: Work, some: slice, features: Tensor, filters: Tensor | None, num_points: int, scratch: Scratch | None = None
) -> Tensor:
    """What the products take of the kernel: matrices (neighbor, query, in, out), features, or features spread over points."""
    if work.plan.order == "kernel":
        return features.transpose(0, 1).contiguous() if filters is None else kernel_matrices(features, filters, scratch)
    return spread(features, work.index[some], num_points) if work.plan.order == "dense" else features


def _product(
    work: Work,
    some: slice,
    operand: Tensor,
    filters: Tensor | None,
    x: Tensor,
    z: Tensor | None,
    place: Tensor | None = None,
) -> Float[Tensor, "query row out"]:
    """In `place` where it is contiguous."""
    index, outputs = work.index[some], operand.shape[-1] if filters is None else filters.shape[-1]
    if z is not None and work.plan.order == "push":
        return push_product(operand, z, work.push_plan(some), SCRATCH).unflatten(1, (-1, outputs))
    out = place
    if out is None or not out.is_contiguous():
        out = SCRATCH.new("before", x, len(index), x.shape[1], outputs)
    if z is not None:
        dense_product(operand, z, out.flatten(1))
    elif work.plan.order == "pool" and filters is not None:
        pool_product(operand, filters, x, index, out)
    else:
        kernel_product(operand, x, index, out, SCRATCH)
    return out


def _product_backward(
    work: Work,
    some: slice,
    left: Tensor,
    operand: Tensor | None,
    filters: Tensor | None,
    x: Tensor,
    z: Tensor | None,
    grad: Tensor,
    grad_x: Tensor | None,
    grad_filters: Tensor | None,
    grad_z: Tensor | None,
) -> Tensor:
    index = work.index[some]
    if z is not None and grad_z is not None:
        if work.plan.order == "dense":
            return dense_product_backward(left, z, index, grad.flatten(1), grad_z)
        return push_product_backward(left, z, work.push_plan(some), grad.flatten(1), grad_z, SCRATCH)
    if work.plan.order == "pool" and filters is not None and grad_filters is not None:
        return pool_product_backward(left, filters, x, index, grad, grad_x, grad_filters)
    if operand is None:
        operand = _operand(work, some, left, filters, len(x), SCRATCH)
    grad_matrices = kernel_product_backward(operand, x, index, grad, grad_x, SCRATCH)
    if filters is None or grad_filters is None:
        return grad_matrices.transpose(0, 1)
    return kernel_matrices_backward(left, filters, grad_matrices, grad_filters)
