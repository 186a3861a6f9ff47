"""Attention among slices: points gather in a few tokens by what they hold, these attend to one another, and give it back."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import nn

from calm_pde.models.transolver.grid import GridConvolution
from calm_pde.nn.linear_transformer.attention import in_heads, real, together
from calm_pde.nn.pointwise import linear, small_linear
from calm_pde.types import Bool, Float, Tensor

_EMPTY = 1e-5  # beside the weights that a slice's token is divided by
_TEMPERATURES = (0.1, 5.0)


class Place(NamedTuple):
    """Which points are real, and the nodes along each axis where they are a grid."""

    mask: Bool[Tensor, "row point"] | None
    shape: tuple[int, ...] | None


class SliceAttention(nn.Module):
    """W (Σ_g w_ng t′_g) + b per head, with tokens t_g = Σ_n w_ng v_n/(Σ_n w_ng + 10⁻⁵) and t′ = softmax(q kᵀ/√d) v of them.

    w_n = softmax_g(W_s p_n + b_s)/τ_h: how much of point n is in each slice g, with p and v linear in LN(x) at the point, or
    convolutions of it over 3 nodes each way. W_s, and the maps to q, k and v, are the same for all heads.

    Args:
        grid: which axes are periodic where p and v are convolutions over a grid; None where points are alone.
    """

    def __init__(
        self, width: int, heads: int, slices: int, grid: tuple[bool, ...] | None, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.heads, size = heads, width // heads
        self.norm = nn.LayerNorm(width)
        self.to_place, self.to_value = (
            small_linear(width, width, generator) if grid is None else GridConvolution(width, grid, generator) for _ in "pv"
        )
        self.to_slices = linear(size, slices, generator)
        nn.init.orthogonal_(self.to_slices.weight, generator=generator)
        nn.init.zeros_(self.to_slices.bias)
        self.temperature = nn.Parameter(torch.full((heads,), 0.5))
        self.query, self.key, self.value = (small_linear(size, size, generator, bias=False) for _ in "qkv")
        self.to_out = small_linear(width, width, generator)

    def weights(self, x: Float[Tensor, "row point channel"], place: Place) -> Float[Tensor, "row head point slice"]:
        """w of the normalized features, zero at masked points."""
        temperature = self.temperature.clamp(*_TEMPERATURES).view(-1, 1, 1)
        weight, bias = self.to_slices.weight / temperature, self.to_slices.bias / temperature  # far fewer than the logits
        logits = in_heads(self._read(self.to_place, x, place), self.heads) @ weight.mT + bias
        return real(logits.softmax(dim=-1), place.mask)

    def forward(self, x: Float[Tensor, "row point channel"], place: Place) -> Float[Tensor, "row point channel"]:
        x = self.norm(x)
        weights = self.weights(x, place)
        values = in_heads(self._read(self.to_value, x, place), self.heads)
        tokens = (weights.mT @ values) / (weights.sum(dim=2)[..., None] + _EMPTY)
        logits = self.query(tokens) @ self.key(tokens).mT / math.sqrt(tokens.shape[-1])
        return self.to_out(together(weights @ (logits.softmax(dim=-1) @ self.value(tokens))))

    def _read(self, projection: nn.Module, x: Tensor, place: Place) -> Tensor:
        return projection(x) if place.shape is None else projection(x, place.shape)
