"""The vision transformer over the tokens' grid: patches, blocks in two halves with long skips, told the lead time."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

from calm_pde.models.gaot.config import GaotConfig
from calm_pde.nn.chunked import within
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import linear, preserving, silent
from calm_pde.nn.sinusoids import sinusoids
from calm_pde.types import Float, Tensor

_HELD = 30  # numbers that a block holds of each patch for its backward, as multiples of the width


class Block(nn.Module):
    """x + (1 + s₁)·Attn(RMS(x)) + b₁, then x + (1 + s₂)·W₃(SiLU(W₁ y) ⊙ W₂ y) + b₂ with y = RMS(x).

    (s, b) = W·c of the lead time's features c; W starts at zero.
    """

    declared_matrices: ClassVar[dict[str, Matrices]] = {"to_qkv.weight": Matrices(parts=3), "gate.weight": Matrices(parts=2)}

    def __init__(self, width: int, heads: int, expansion: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_mlp = nn.RMSNorm(width), nn.RMSNorm(width)
        self.to_qkv = linear(width, 3 * width, generator)
        self.to_out = linear(width, width, generator)
        self.gate = linear(width, 2 * expansion * width, generator)
        self.reduce = linear(expansion * width, width, generator)
        self.modulation = silent(width, 4 * width)

    def forward(
        self, x: Float[Tensor, "row token channel"], c: Float[Tensor, "row channel"]
    ) -> Float[Tensor, "row token channel"]:
        scale, shift, scale_mlp, shift_mlp = self.modulation(c)[:, None].chunk(4, dim=-1)
        query, key, value = self.to_qkv(_normed(self.norm, x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = self.to_out(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        x = x + (1 + scale) * mixed + shift
        gate, passed = self.gate(_normed(self.norm_mlp, x)).chunk(2, dim=-1)
        return x + (1 + scale_mlp) * self.reduce(silu(gate) * passed) + shift_mlp


class Processor(nn.Module):
    """Tokens to tokens, in patches of patchᵈ; the blocks of the second half read what those of the first have said too."""

    places: Tensor

    def __init__(self, config: GaotConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        self.grid, self.patch, self.budget, width = config.grid, config.patch, config.memory_budget, config.processor_width
        counts = [size // config.patch for size in config.grid]
        axes = torch.meshgrid(*(torch.arange(count, dtype=torch.float32) for count in counts), indexing="ij")
        places = torch.stack(axes, dim=-1).view(math.prod(counts), config.dim)
        self.register_buffer("places", places, persistent=False)
        read = config.width * config.patch**config.dim
        self.told = linear(1, width, generator)
        self.bring = preserving(read, width, generator)
        sizes = (width, config.heads, config.expansion, generator)
        self.first = nn.ModuleList(Block(*sizes) for _ in range(config.depth))
        self.middle = Block(*sizes)
        self.joins = nn.ModuleList(preserving(2 * width, width, generator) for _ in range(config.depth))
        self.second = nn.ModuleList(Block(*sizes) for _ in range(config.depth))
        self.norm = nn.RMSNorm(width)
        self.last = preserving(width, read, generator)

    def forward(
        self, tokens: Float[Tensor, "row token channel"], lead: Float[Tensor, "row 1"]
    ) -> Float[Tensor, "row token channel"]:
        c, passed = silu(self.told(lead)), []
        x = self.bring(self.patched(tokens))
        x = x + sinusoids(self.places, x.shape[-1], 1.0).to(x)
        held = _HELD * x.numel() * x.element_size() * (2 * len(self.first) + 1)
        limit = {"held": held, "budget": self.budget}
        for block in self.first:
            x = within(block, x, c, **limit)
            passed.append(x)
        x = within(self.middle, x, c, **limit)
        for join, block in zip(self.joins, self.second, strict=True):
            x = within(block, join(torch.cat([x, passed.pop()], dim=-1)), c, **limit)
        return self.unpatched(self.last(_normed(self.norm, x)))

    def patched(self, tokens: Float[Tensor, "row token channel"]) -> Float[Tensor, "row _ features"]:
        """The tokens of each patch, side by side."""
        axes = [part for size in self.grid for part in (size // self.patch, self.patch)]
        dim, x = len(self.grid), tokens.unflatten(1, axes)
        order = [0, *range(1, 2 * dim, 2), *range(2, 2 * dim + 1, 2), 2 * dim + 1]
        return x.permute(order).flatten(dim + 1).flatten(1, dim)

    def unpatched(self, x: Float[Tensor, "row _ features"]) -> Float[Tensor, "row token channel"]:
        """The way back."""
        dim, counts = len(self.grid), [size // self.patch for size in self.grid]
        corners = x.unflatten(-1, (*(self.patch,) * dim, -1)).unflatten(1, counts)
        order = [0, *(place for axis in range(dim) for place in (1 + axis, 1 + dim + axis)), 2 * dim + 1]
        return corners.permute(order).flatten(1, 2 * dim)


def _normed(norm: nn.RMSNorm, x: Tensor) -> Tensor:
    """In the type of the weights, which is wider than that of x under autocast."""
    return norm(x.to(norm.weight))
