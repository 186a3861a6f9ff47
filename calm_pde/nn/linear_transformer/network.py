"""A transformer over points, around any attention whose cost is linear in their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from calm_pde.nn.pointwise import PointwiseMLP, small_linear
from calm_pde.types import Float, Tensor


class PreNormBlock(nn.Module):
    """x + Attn(x), then x + MLP(LN(x)); what attention reads it normalizes itself.

    Args:
        expansion: how many times wider the MLP is inside.
    """

    def __init__(self, width: int, attention: nn.Module, expansion: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.attention = attention
        self.norm = nn.LayerNorm(width)
        self.mlp = PointwiseMLP(width, expansion * width, generator, start=small_linear)

    def forward(self, x: Float[Tensor, "row point channel"], place: Any) -> Float[Tensor, "row point channel"]:
        x = x + self.attention(x, place)
        return x + self.mlp(self.norm(x))


def embedding(in_features: int, width: int, out: int, generator: torch.Generator | None) -> PointwiseMLP:
    """The first map of such models, with 2 `width` features inside."""
    return PointwiseMLP(in_features, 2 * width, generator, out=out, start=small_linear)


class PointTransformer(nn.Module):
    """W LN(blocks(MLP(features) + c)) + b, with one learned vector c for all points, at first from U[0, 1)/width.

    Args:
        recomputed: whether each block is computed again in the backward pass, so that only what stands between blocks is held.
    """

    def __init__(
        self,
        in_features: int,
        width: int,
        out_features: int,
        blocks: Sequence[PreNormBlock],
        generator: torch.Generator | None,
        recomputed: bool = False,
    ) -> None:
        super().__init__()
        self.recomputed = recomputed
        self.embed = embedding(in_features, width, width, generator)
        self.everywhere = nn.Parameter(torch.rand(width, generator=generator) / width)
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)
        self.head = small_linear(width, out_features, generator)

    def forward(self, features: Float[Tensor, "row point in"], place: Any) -> Float[Tensor, "row point out"]:
        """What attention is told of the points stands in `place`."""
        x = self.embed(features) + self.everywhere
        for block in self.blocks:
            x = checkpoint(block, x, place, use_reentrant=False) if self.recomputed else block(x, place)
        return self.head(self.norm(x))
