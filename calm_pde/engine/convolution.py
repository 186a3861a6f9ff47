"""Continuous convolution in bounded memory: chunks over queries, forward and backward; the backward computes kernels again.

A layer's work behind its door is one differentiable function of features, positions and weights. Kernels and gathered neighbors
exist for one chunk at a time; the convolution's output, the MLP's hidden layer and the kernel's features are kept from forward
to backward where the plan finds room for them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from calm_pde.engine import plain
from calm_pde.engine.buffers import POOL, SCRATCH
from calm_pde.engine.chunks import Work, shift_of
from calm_pde.engine.gradients import Gradients, Saved
from calm_pde.engine.precision import autocast_type, full_precision
from calm_pde.engine.tail import tail_forward
from calm_pde.engine.transforms import asks_for_formulas, seen_through
from calm_pde.types import Float, Tensor


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
    if seen_through():
        return plain.convolution(work, None, x, points, queries, filters, offset, bias, tail, parameters)
    features, learns = None, torch.is_grad_enabled()
    if learns and work.plan.keep_geometry and work.operand is None:
        features = work.all_features(points, queries, parameters)
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
        lifted, keep_lifted = None, learns and work.plan.keep_lifted
        for part in work.row_slices(rows):
            some_x = x[:, part].contiguous()
            lifted = work.order.lifted(some_x, filters, keep_lifted)
            for some in work.slices():
                if work.operand is None:
                    left = work.features(some, points, queries, parameters) if features is None else features[some]
                    left = left.to(x.dtype)
                    operand = work.order.operand(work.chunk(some), left, filters, SCRATCH)
                    shift = shift_of(left, offset, bias)
                else:
                    operand = work.operand.narrow(work.order.query_axis, some.start, some.stop - some.start).to(x.dtype)
                    shift = bias if work.shift is None else work.shift[some]
                out = y[some, part]
                place = kept[some, part] if kept is not None else None if work.tail else out
                before = work.order.product(work.chunk(some), operand, filters, some_x, lifted, place)
                before += shift
                if place is not None and before is not place:
                    before = place.copy_(before)
                if work.tail:
                    tail_forward(before, tail, out, None if hidden is None else hidden[some], SCRATCH)
        ctx.work, ctx.num_tail = work, num_tail
        made = (kept, hidden, lifted if keep_lifted else None)
        ctx.save_for_backward(features, x, points, queries, filters, offset, bias, *made, *rest)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = Saved.of(ctx.saved_tensors, ctx.num_tail)
        if asks_for_formulas(grads[0]):
            found = plain.formula_gradients(partial(saved.formula, ctx.work), saved.inputs, grads[0])
        else:
            with full_precision(grads[0]):
                found = Gradients(ctx.work, saved, ctx.needs_input_grad[4:7]).of(grads[0])
        return None, None, None, *found
