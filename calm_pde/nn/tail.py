"""What follows a convolution at every query: y + W₂ σ(W₁ y + b₁) + b₂ with y = σ(before), forward and backward by hand.

Everything is (query, row, channel), so each map is one plain matrix product. Queries are taken in blocks whose hidden layer
stays in the cache.
"""

from __future__ import annotations

import torch

from calm_pde.nn.products import Scratch, add_product
from calm_pde.types import Float, Tensor

_BLOCK = 12 * 2**20  # bytes of hidden layer that are worked on together, before and after σ

gelu_out = torch.ops.aten.gelu.out
gelu_backward_out = torch.ops.aten.gelu_backward.grad_input


def tail_forward(
    before: Float[Tensor, "query row out"],
    tail: tuple[Tensor, ...],
    out: Float[Tensor, "query row out"],
    hidden: Float[Tensor, "query row wide"] | None,
    scratch: Scratch,
) -> None:
    """Writes to `out`; W₁ y + b₁ comes to lie in `hidden` where it is to be kept."""
    expand, _, reduce, reduce_bias = tail
    for some in _blocks(before, len(expand)):
        flat = before[some].flatten(0, 1)
        y = gelu_out(flat, out=scratch.new("y", flat, *flat.shape))
        inside = _inside(y, tail, hidden, some, scratch, known=False)
        active = gelu_out(inside, out=scratch.new("active", inside, *inside.shape))
        place = out[some].view_as(flat) if out[some].is_contiguous() else y
        torch.add(y, reduce_bias, out=place)
        place.addmm_(active, reduce.T)
        if place is y:
            out[some] = y.view_as(before[some])


def tail_backward(
    before: Float[Tensor, "query row out"],
    grad: Float[Tensor, "query row out"],
    tail: tuple[Tensor, ...],
    grads: list[Tensor],
    hidden: Float[Tensor, "query row wide"] | None,
    out: Float[Tensor, "query row out"],
    scratch: Scratch,
) -> None:
    """Writes the gradient of `before` to `out`, which is contiguous; those of the weights are added to `grads`."""
    expand, _, reduce, _ = tail
    for some in _blocks(before, len(expand)):
        flat, flat_grad = before[some].flatten(0, 1), grad[some].flatten(0, 1)
        y = gelu_out(flat, out=scratch.new("y", flat, *flat.shape))
        inside = _inside(y, tail, hidden, some, scratch, known=True)
        active = gelu_out(inside, out=scratch.new("active", inside, *inside.shape))
        add_product(grads[2], flat_grad.T, active)
        grads[3] += flat_grad.sum(dim=0)
        grad_hidden = torch.mm(flat_grad, reduce, out=active)  # σ(inside) has served
        gelu_backward_out(grad_hidden, inside, grad_input=grad_hidden)
        add_product(grads[0], grad_hidden.T, y)
        grads[1] += grad_hidden.sum(dim=0)
        grad_y = torch.addmm(flat_grad, grad_hidden, expand, out=out[some].view_as(flat))
        gelu_backward_out(grad_y, flat, grad_input=grad_y)


def _blocks(before: Tensor, width: int) -> list[slice]:
    largest = max(1, _BLOCK // (2 * before.shape[1] * width * before.itemsize))
    size = -(-len(before) // -(-len(before) // largest))  # as few blocks as need be, of nearly equal size
    starts = range(0, len(before), size)
    return [slice(start, start + size) for start in (starts[:2] if before.is_meta else starts)]


def _inside(
    y: Float[Tensor, "query_row out"],
    tail: tuple[Tensor, ...],
    hidden: Tensor | None,
    some: slice,
    scratch: Scratch,
    known: bool,
) -> Float[Tensor, "query_row wide"]:
    """W₁ y + b₁ of some queries: as it was kept, or computed (again)."""
    expand, bias = tail[:2]
    place = scratch.new("hidden", y, len(y), len(expand)) if hidden is None else hidden[some].flatten(0, 1)
    return place if known and hidden is not None else torch.addmm(bias, y, expand.T, out=place)
