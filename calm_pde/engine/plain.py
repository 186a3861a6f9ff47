"""The plain formulas of a convolution and of ψ, for tracers, transforms and derivatives of derivatives to look through.

The convolution holds every kernel matrix at once, so it takes more time and memory than the orders with a backward by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import gelu, layer_norm, linear, scaled_dot_product_attention

from calm_pde.engine.chunks import Work, shift_of
from calm_pde.engine.precision import full_precision
from calm_pde.types import Float, Tensor


def plain_attention() -> AbstractContextManager:
    """In here attention is a formula that can be differentiated in any way; the fused one has a first derivative alone."""
    return nullcontext() if torch.compiler.is_compiling() else sdpa_kernel(SDPBackend.MATH)


def convolution(
    work: Work,
    features: Tensor | None,
    x: Tensor,
    points: Tensor,
    queries: Tensor,
    filters: Tensor | None,
    offset: Tensor | None,
    bias: Tensor,
    tail: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
) -> Tensor:
    """Σ features·filters·x + Σ features·offset + bias and the tail, in one piece."""
    features = (work.all_features(points, queries, parameters) if features is None else features).to(x.dtype)
    matrices = features if filters is None else torch.einsum("qnh,hio->qnio", features, filters)
    before = torch.einsum("qnri,qnio->qro", x[work.index], matrices) + shift_of(features, offset, bias)
    if not work.tail:
        return before
    expand, expand_bias, reduce, reduce_bias = tail
    y = gelu(before)
    return y + linear(gelu(linear(y, expand, expand_bias)), reduce, reduce_bias)


class BlockWeights(NamedTuple):
    qkv: Tensor
    qkv_bias: Tensor
    query_scale: Tensor
    query_shift: Tensor
    key_scale: Tensor
    key_shift: Tensor
    out: Tensor
    out_bias: Tensor
    expand: Tensor
    expand_bias: Tensor
    reduce: Tensor
    reduce_bias: Tensor

    def norm(self) -> tuple[Float[Tensor, "2 1 1 channel"], Float[Tensor, "2 1 1 channel"]]:
        """Scales and shifts of queries and keys behind their norm."""
        scales, shifts = (self.query_scale, self.key_scale), (self.query_shift, self.key_shift)
        return torch.stack(scales)[:, None, None], torch.stack(shifts)[:, None, None]


class ProcessorWeights(NamedTuple):
    """What ψ is made of, and A where it is damped; `place` and `nearness` hold all that depends on the positions.

    Where each sample has positions of its own, these two have a batch axis in front. Nearness is what attention adds to its
    logits, (token, token) for all heads alike, or (sample or 1, head, token, token).
    """

    place: Float[Tensor, "*sample token width"]
    nearness: Float[Tensor, "... token token"]
    into: Float[Tensor, "width channel"]
    out: Float[Tensor, "channel width"]
    out_bias: Float[Tensor, "channel"]
    blocks: tuple[BlockWeights, ...]
    damping: Float[Tensor, "channel channel"] | None = None

    def flat(self) -> tuple[Tensor, ...]:
        blocks = (value for block in self.blocks for value in block)
        return (*self[:5], *blocks, *(() if self.damping is None else (self.damping,)))

    @classmethod
    def grouped(cls, flat: tuple[Tensor, ...]) -> ProcessorWeights:
        """The inverse of `flat`."""
        (place, nearness, into, out, out_bias), rest, size = flat[:5], flat[5:], len(BlockWeights._fields)
        count = len(rest) // size
        blocks = tuple(BlockWeights(*rest[size * block : size * (block + 1)]) for block in range(count))
        return cls(place, nearness, into, out, out_bias, blocks, *rest[size * count :])


class Modulation(NamedTuple):
    """What conditions do to ψ: of each block and sub-block (attention, MLP) a gain g, a scale s and a shift b, for each sample
    at each of some moments.

    Args:
        places: which entry of the table holds at a time; None where one holds at all times.
    """

    table: Float[Tensor, "moment batch block 2 3 width"]
    places: dict[float, int] | None = None

    def place(self, time: float) -> int:
        return 0 if self.places is None else self.places[time]

    def at(self, time: float, block: int) -> tuple[Modulated, Modulated]:
        """Of both sub-blocks of a block at a time."""
        attention, mlp = self.table[self.place(time), :, block].unbind(dim=1)
        return Modulated(*attention[:, :, None].unbind(dim=1)), Modulated(*mlp[:, :, None].unbind(dim=1))


class Modulated(NamedTuple):
    """What a sub-block f of ψ becomes: x + (1 + gain) f((1 + scale) x + shift)."""

    gain: Float[Tensor, "batch 1 width"]
    scale: Float[Tensor, "batch 1 width"]
    shift: Float[Tensor, "batch 1 width"]

    def __call__(
        self, f: Callable[[Tensor], Tensor], x: Float[Tensor, "batch token width"]
    ) -> Float[Tensor, "batch token width"]:
        return x + (1 + self.gain) * f((1 + self.scale) * x + self.shift)


def velocity(
    weights: ProcessorWeights,
    heads: int,
    modulation: Modulation | None,
    z: Float[Tensor, "batch token channel"],
    time: float = 0.0,
) -> Float[Tensor, "batch token channel"]:
    """ψ(z, c(t)) − A z; ψ has blocks of x + Attn(x), then x + MLP(x), and no norm on the stream, so that the scale of the
    features passes through. Conditions change what each sub-block sees and how loud it answers."""
    x = linear(z, weights.into) + weights.place
    for depth, block in enumerate(weights.blocks):
        attention, mlp = partial(_attention, block, heads, weights.nearness), partial(_pointwise, block)
        if modulation is None:
            x = x + attention(x)
            x = x + mlp(x)
        else:
            of_attention, of_mlp = modulation.at(time, depth)
            x = of_mlp(mlp, of_attention(attention, x))
    rate = linear(x, weights.out, weights.out_bias)
    return rate if weights.damping is None else rate - linear(z, weights.damping)


def for_heads(nearness: Float[Tensor, "... token token"]) -> Tensor:
    """As attention adds them to its logits (batch, head, token, token)."""
    return nearness[:, None] if nearness.ndim == 3 else nearness


def _attention(
    block: BlockWeights,
    heads: int,
    nearness: Float[Tensor, "... token token"],
    x: Float[Tensor, "batch token width"],
) -> Float[Tensor, "batch token width"]:
    """softmax(LN(x W^Q) LN(x W^K)ᵀ/√(head width) + nearness) x W^V per head, then one output map."""
    query, key, value = linear(x, block.qkv, block.qkv_bias).unflatten(-1, (3, heads, -1)).unbind(dim=2)
    size = query.shape[-1:]
    query = layer_norm(query, size, block.query_scale, block.query_shift)
    key = layer_norm(key, size, block.key_scale, block.key_shift)
    by_head = (query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
    heard = scaled_dot_product_attention(*by_head, attn_mask=for_heads(nearness)).transpose(1, 2).flatten(2)
    return linear(heard, block.out, block.out_bias)


def _pointwise(block: BlockWeights, x: Float[Tensor, "batch token width"]) -> Float[Tensor, "batch token width"]:
    return linear(gelu(linear(x, block.expand, block.expand_bias)), block.reduce, block.reduce_bias)


def formula_gradients(
    formula: Callable[[Sequence[Any]], Tensor], inputs: Sequence[Tensor | None], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients of a formula, for a backward by hand that someone looks through; under `create_graph=True` with a graph.

    The formula is given aliases, and is differentiated by these. Inputs may depend on one another (a weight on its
    displacement, features on the points of their layer), and a gradient by such an input itself would count what flows back
    through the others, which autograd adds once more.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad(), full_precision(grad):
        given = [value.view_as(value) if value is not None and value.requires_grad else value for value in inputs]
        wanted = [alias for alias in given if alias is not None and alias.requires_grad]
        found = iter(torch.autograd.grad(formula(given), wanted, grad, create_graph=again, allow_unused=True))
    return tuple(next(found) if alias is not None and alias.requires_grad else None for alias in given)
