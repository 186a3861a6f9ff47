"""What follows a convolution at every query: y + W₂ σ(W₁ y + b₁) + b₂ with y = σ(before), forward and backward by hand.

Everything is (query, row, channel). Queries are taken in blocks whose hidden layer stays in the cache, and each block as groups
of rows, one product each: then a core multiplies the rows that it has just put through σ, instead of fetching another core's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from calm_pde.engine.buffers import Scratch
from calm_pde.engine.orders.products import add_product
from calm_pde.types import Float, Tensor

_BLOCK = 12 * 2**20  # bytes of hidden layer that are worked on together, before and after σ
_GROUPS, _GROUP_ROWS = 16, 128  # at the most, and of at least so many rows

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
    for some, shape in _blocks(before, len(expand)):
        given = before[some].reshape(shape)
        y = gelu_out(given, out=scratch.new("y", given, *shape))
        inside = _inside(y, tail, hidden, some, scratch, known=False)
        active = gelu_out(inside, out=scratch.new("active", inside, *inside.shape))
        place = out[some].view(shape) if out[some].is_contiguous() else y
        torch.add(y, reduce_bias, out=place)
        place.baddbmm_(active, reduce.T.expand(len(y), -1, -1))
        if place is y:
            out[some] = y.view_as(before[some])


class TailGradients:
    """What the weights receive from all blocks, in single precision at least; each group of rows has a sum of its own."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int], Tensor] = {}

    def add(self, name: str, a: Float[Tensor, "group m row"], b: Float[Tensor, "group row n"]) -> None:
        key = (name, len(a))
        if key in self._sums:
            add_product(self._sums[key], a, b)
        else:
            product = torch.bmm(a, b)
            self._sums[key] = product.to(torch.promote_types(product.dtype, torch.float32))

    def add_rows(self, name: str, rows: Float[Tensor, "group row n"]) -> None:
        """Their sum, as a product: a plain sum hands columns to cores, and with them every row to all cores."""
        self.add(name, rows.new_ones(1, 1, rows.shape[1]).expand(len(rows), -1, -1), rows)

    def all(self) -> tuple[Tensor, ...]:
        """The gradients of W₁, b₁, W₂ and b₂."""
        totals: dict[str, Tensor] = {}
        for (name, _), sums in self._sums.items():
            summed = sums.sum(dim=0)
            totals[name] = totals[name] + summed if name in totals else summed
        return totals["expand"].T, totals["expand bias"][0], totals["reduce"], totals["reduce bias"][0]


def tail_backward(
    before: Float[Tensor, "query row out"],
    grad: Float[Tensor, "query row out"],
    tail: tuple[Tensor, ...],
    grads: TailGradients,
    hidden: Float[Tensor, "query row wide"] | None,
    out: Float[Tensor, "query row out"],
    scratch: Scratch,
) -> None:
    """Writes the gradient of `before` to `out`, which is contiguous; those of the weights are added to `grads`."""
    expand, _, reduce, _ = tail
    for some, shape in _blocks(before, len(expand)):
        given, coming = before[some].reshape(shape), grad[some].view(shape)
        y = gelu_out(given, out=scratch.new("y", given, *shape))
        inside = _inside(y, tail, hidden, some, scratch, known=True)
        active = gelu_out(inside, out=scratch.new("active", inside, *inside.shape))
        grads.add("reduce", coming.transpose(1, 2), active)
        grads.add_rows("reduce bias", coming)
        grad_hidden = torch.bmm(coming, reduce.expand(len(y), -1, -1), out=active)  # σ(inside) has served
        gelu_backward_out(grad_hidden, inside, grad_input=grad_hidden)
        grads.add("expand", y.transpose(1, 2), grad_hidden)  # faster than its transpose
        grads.add_rows("expand bias", grad_hidden)
        grad_y = torch.baddbmm(coming, grad_hidden, expand.expand(len(y), -1, -1), out=out[some].view(shape))
        gelu_backward_out(grad_y, given, grad_input=grad_y)


def _blocks(before: Float[Tensor, "query row out"], width: int) -> Iterator[tuple[slice, tuple[int, int, int]]]:
    """Some queries, and the shape (group, row, out) of what they have."""
    count, rows, channels = before.shape
    largest = max(1, _BLOCK // (2 * rows * width * before.itemsize))
    size = -(-count // -(-count // largest))  # as few blocks as need be, of nearly equal size
    size = size if size < 8 else -(-size // 8) * 8  # that fall into groups
    starts = range(0, count, size)
    for start in starts[:2] if before.is_meta else starts:
        together = rows * (min(count, start + size) - start)
        wanted = min(_GROUPS, max(1, together // _GROUP_ROWS))
        groups = math.gcd(together, 2 ** (wanted.bit_length() - 1))
        yield slice(start, start + size), (groups, together // groups, channels)


def _inside(
    y: Float[Tensor, "group row out"],
    tail: tuple[Tensor, ...],
    hidden: Tensor | None,
    some: slice,
    scratch: Scratch,
    known: bool,
) -> Float[Tensor, "group row wide"]:
    """W₁ y + b₁ of some queries: as it was kept, or computed (again)."""
    expand, bias = tail[:2]
    shape = (*y.shape[:2], len(expand))
    place = scratch.new("hidden", y, *shape) if hidden is None else hidden[some].view(shape)
    return place if known and hidden is not None else torch.baddbmm(bias, y, expand.T.expand(len(y), -1, -1), out=place)
