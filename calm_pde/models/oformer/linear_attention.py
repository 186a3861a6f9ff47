"""Attention without softmax (Galerkin and Fourier type): linear in the number of points, which rotations make known."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm
from torch.utils.checkpoint import checkpoint

from calm_pde.engine.precision import full_precision
from calm_pde.nn.pointwise import linear
from calm_pde.types import Bool, Float, Tensor

Attention = Literal["galerkin", "fourier"]
Norm = Literal["token", "domain", "affine"]

_EPSILON = 1e-5


class Rotation(NamedTuple):
    """Cosine and sine of each point's angles, one block of channels per axis; heads share them."""

    cosine: Float[Tensor, "#batch point dim half"]
    sine: Float[Tensor, "#batch point dim half"]


def rotation(positions: Float[Tensor, "*cloud point dim"], width: int, frequency: float) -> Rotation:
    """Angles p·frequency·10000^(−2j/d′), j < d′/2, with d′ the largest even number of channels that every axis can have.

    They reach thousands of radians, and are computed in float64 whatever the type of the positions.
    """
    positions = positions if positions.ndim == 3 else positions[None]
    half = width // (2 * positions.shape[-1])
    with full_precision(positions):
        powers = torch.arange(half, dtype=torch.float64, device=positions.device) / max(half, 1)
        angles = (positions.double() * frequency)[..., None] * 10_000.0**-powers
        return Rotation(angles.cos().to(positions.dtype), angles.sin().to(positions.dtype))


def rotated(x: Float[Tensor, "batch point channel"], turn: Rotation) -> Float[Tensor, "batch point channel"]:
    """(x₁, x₂) ↦ (x₁ cos − x₂ sin, x₂ cos + x₁ sin) for the two halves of each axis' block; channels left over stay."""
    dim, half = turn.cosine.shape[-2:]
    blocks, rest = x[..., : 2 * dim * half], x[..., 2 * dim * half :]
    first, second = blocks.unflatten(-1, (dim, 2, half)).unbind(dim=-2)
    turned = [first * turn.cosine - second * turn.sine, second * turn.cosine + first * turn.sine]
    return torch.cat([torch.stack(turned, dim=-2).flatten(-3), rest.to(turned[0].dtype)], dim=-1)


class LinearAttention(nn.Module):
    """q (kᵀ v) / N per head, with queries of x, keys and values of the context (x itself where there is none), rotated q and k.

    Galerkin type normalizes k and v, Fourier type q and k. Heads are as wide as the features; an output map follows unless
    there is one head. Weights named here start near identity, orthogonal/width + I/width: of one head q (Galerkin) or
    v (Fourier), of several all three.

    Args:
        norm: `token` normalizes each point over its channels, which is what the published code computes; `domain` each
            channel over the real points, which is what its paper says, and its authors' own runs used; `affine` is
            `token` with a learned scale and shift, which the published code has for padded meshes.
    """

    def __init__(self, width: int, heads: int, attention: Attention, norm: Norm, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads, self.attention, self.norm = heads, attention, norm
        self.to_query = linear(width, heads * width, generator, bias=False)
        self.to_key = linear(width, heads * width, generator, bias=False)
        self.to_value = linear(width, heads * width, generator, bias=False)
        several = (self.to_query, self.to_key, self.to_value)
        for layer in several if heads > 1 else (self.to_query if attention == "galerkin" else self.to_value,):
            near_identity(layer, generator)
        self.to_out = linear(heads * width, width, generator) if heads > 1 else None
        self.first_norm = nn.LayerNorm(width) if norm == "affine" else None
        self.second_norm = nn.LayerNorm(width) if norm == "affine" else None

    def forward(
        self,
        x: Float[Tensor, "batch query channel"],
        turn: Rotation,
        context: Float[Tensor, "batch point channel"] | None = None,
        context_turn: Rotation | None = None,
        mask: Bool[Tensor, "batch query"] | None = None,
        context_mask: Bool[Tensor, "batch point"] | None = None,
    ) -> Float[Tensor, "batch query channel"]:
        """Masks tell the real ones among x and among the context; the others must be finite and change nothing.

        Heads come one after the other, and of several each is computed again in backward: memory is that of one head.
        """
        if context is None or context_turn is None:
            context, context_turn, context_mask = x, turn, mask
        if self.heads == 1 or self.to_out is None:
            return self._attended(0, x, turn, context, context_turn, mask, context_mask)
        out = self.to_out.bias
        for head, weight in enumerate(self.to_out.weight.split(x.shape[-1], dim=1)):
            arguments = (head, x, turn, context, context_turn, mask, context_mask)
            out = out + nn.functional.linear(checkpoint(self._attended, *arguments, use_reentrant=False), weight)
        return out

    def _attended(
        self,
        head: int,
        x: Tensor,
        turn: Rotation,
        context: Tensor,
        context_turn: Rotation,
        mask: Tensor | None,
        context_mask: Tensor | None,
    ) -> Float[Tensor, "batch query channel"]:
        """q (kᵀ v) / N of one head."""
        rows = slice(head * x.shape[-1], (head + 1) * x.shape[-1])
        query = nn.functional.linear(x, self.to_query.weight[rows])
        key, value = (nn.functional.linear(context, layer.weight[rows]) for layer in (self.to_key, self.to_value))
        if self.attention == "fourier":
            query = self._normalized(query, self.first_norm, mask)
            key = self._normalized(key, self.second_norm, context_mask)
        else:
            key = self._normalized(key, self.first_norm, context_mask)
            value = self._normalized(value, self.second_norm, context_mask)
        query, key = rotated(query, turn), rotated(key, context_turn)
        count: Tensor | int = context.shape[1]
        if context_mask is not None:
            key = key.masked_fill(~context_mask[..., None], 0.0)
            count = context_mask.sum(dim=1).view(-1, 1, 1)
        return query @ ((key.mT @ value.to(key.dtype)) / count)

    def _normalized(
        self,
        x: Float[Tensor, "batch point channel"],
        affine: nn.LayerNorm | None,
        mask: Bool[Tensor, "batch point"] | None,
    ) -> Float[Tensor, "batch point channel"]:
        if affine is not None:
            return affine(x)
        if self.norm == "token":
            return layer_norm(x, x.shape[-1:], eps=_EPSILON)
        weight = x.new_ones(x.shape[-2], 1) if mask is None else mask[..., None].to(x.dtype)
        count = weight.sum(dim=-2, keepdim=True)
        centered = x - (weight * x).sum(dim=-2, keepdim=True) / count
        return centered * ((weight * centered.square()).sum(dim=-2, keepdim=True) / count + _EPSILON).rsqrt()


class GatedMLP(nn.Module):
    """W₂ (GELU(a) ⊙ b) with (a, b) = W₁ x."""

    def __init__(self, width: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.expand = linear(width, 2 * width, generator)
        self.reduce = linear(width, width, generator)

    def forward(self, x: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        gate, value = self.expand(x).chunk(2, dim=-1)
        return self.reduce(gelu(gate) * value)


def near_identity(layer: nn.Linear, generator: torch.Generator | None) -> None:
    """Each square block of rows becomes (Q + I)/width with Q a random orthogonal matrix; what is read beside stays as drawn."""
    width = min(layer.weight.shape)
    with torch.no_grad():
        for first in range(0, len(layer.weight), width):
            block = layer.weight[first : first + width, :width]
            nn.init.orthogonal_(block, gain=1 / width, generator=generator)
            block += torch.eye(width) / width
