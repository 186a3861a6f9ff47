"""The block of a GNOT: the queries read the input function, then one another, each time followed by a mixture of experts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import gelu

from calm_pde.models.gnot.attention import NormalizedAttention
from calm_pde.nn.pointwise import PointwiseMLP, linear
from calm_pde.types import Bool, Float, Tensor


class Asked(NamedTuple):
    """What the blocks are told beside the queries' features.

    Args:
        positions: of the queries.
        mask: the real points of the input function.
        met: the queries that others see: the real ones at points. None where all are seen.
    """

    positions: Float[Tensor, "cloud query dim"]
    mask: Bool[Tensor, "row point"] | None
    met: Bool[Tensor, "row query"] | None


class Gate(nn.Module):
    """softmax(MLP(p)), the share of each expert at a place; the MLP has two hidden layers with GELU."""

    def __init__(self, dim: int, inner: int, experts: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(linear(a, b, generator) for a, b in ((dim, inner), (inner, inner), (inner, experts)))

    def forward(self, positions: Float[Tensor, "cloud query dim"]) -> Float[Tensor, "cloud query expert"]:
        first, second, last = self.layers
        return last(gelu(second(gelu(first(positions))))).softmax(dim=-1)


class Experts(nn.Module):
    """LN(Σ_e g_e F_e(x)) with MLPs F_e."""

    def __init__(self, width: int, inner: int, experts: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.experts = nn.ModuleList(PointwiseMLP(width, inner, generator) for _ in range(experts))
        self.norm = nn.LayerNorm(width)

    def forward(
        self, x: Float[Tensor, "row query channel"], gate: Float[Tensor, "#row query expert"]
    ) -> Float[Tensor, "row query channel"]:
        found = torch.zeros_like(x)
        for share, expert in zip(gate.split(1, dim=-1), self.experts, strict=True):
            found = found + share * expert(x)
        return self.norm(found)


class GnotBlock(nn.Module):
    """x ← x + Cross(LN x, LN z), x ← x + Experts(x), x ← x + Self(LN x), x ← x + Experts′(x), the same gate for both."""

    def __init__(self, dim: int, width: int, heads: int, inner: int, experts: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.norm_cross, self.norm_given, self.norm_self = (nn.LayerNorm(width) for _ in range(3))
        self.cross = NormalizedAttention(width, heads, generator)
        self.attention = NormalizedAttention(width, heads, generator)
        self.gate = Gate(dim, inner, experts, generator)
        self.after_cross = Experts(width, inner, experts, generator)
        self.after_self = Experts(width, inner, experts, generator)

    def forward(
        self, x: Float[Tensor, "row query channel"], z: Float[Tensor, "row point channel"], asked: Asked
    ) -> Float[Tensor, "row query channel"]:
        gate = self.gate(asked.positions)
        x = x + self.cross(self.norm_cross(x), self.norm_given(z), asked.mask)
        x = x + self.after_cross(x, gate)
        normed = self.norm_self(x)
        x = x + self.attention(normed, normed, asked.met)
        return x + self.after_self(x, gate)
