"""Attention of Galerkin type as benchmarks have it: linear in the number of points."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.nn.linear_transformer.attention import contracted, in_heads, real, real_count, shares, together
from calm_pde.nn.pointwise import small_linear
from calm_pde.types import Bool, Float, Tensor


class GalerkinAttention(nn.Module):
    """W (q (kᵀ v)/N + q) + b per head, with N real points, q = softmax(W_q LN(x)), k = softmax(W_k LN′(x)), v = W_v LN′(x).

    Both softmaxes are over the channels of a head; there is none over points.
    """

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads = heads
        self.norm_query, self.norm_key = nn.LayerNorm(width), nn.LayerNorm(width)
        self.to_query = small_linear(width, width, generator)
        self.to_key = small_linear(width, width, generator)
        self.to_value = small_linear(width, width, generator)
        self.to_out = small_linear(width, width, generator)

    def forward(
        self, x: Float[Tensor, "row point channel"], mask: Bool[Tensor, "row point"] | None
    ) -> Float[Tensor, "row point channel"]:
        normed = self.norm_key(x)
        query = shares(self.to_query(self.norm_query(x)), self.heads)
        key = real(shares(self.to_key(normed), self.heads), mask)
        value = in_heads(self.to_value(normed), self.heads)
        found = contracted(query, key / real_count(x, mask), value)
        return self.to_out(together(found + query))
