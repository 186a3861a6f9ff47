"""Normalized linear attention: of queries to points of an input function, or to other points."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.nn.linear_transformer.attention import contracted, in_heads, real, shares, together
from calm_pde.nn.pointwise import linear
from calm_pde.types import Bool, Float, Tensor


class NormalizedAttention(nn.Module):
    """W (q + q (kᵀ v)/(q · Σ_n k_n)) + b per head, q = softmax(W_q x), k = softmax(W_k z), both over the channels of a head.

    So a query's weights on the points sum to one, without a softmax over them.
    """

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads = heads
        self.to_query = linear(width, width, generator)
        self.to_key = linear(width, width, generator)
        self.to_value = linear(width, width, generator)
        self.to_out = linear(width, width, generator)

    def forward(
        self,
        x: Float[Tensor, "row query channel"],
        z: Float[Tensor, "row point channel"],
        mask: Bool[Tensor, "row point"] | None,
    ) -> Float[Tensor, "row query channel"]:
        """The mask tells the points of z that are real."""
        query, key = shares(self.to_query(x), self.heads), real(shares(self.to_key(z), self.heads), mask)
        value = in_heads(self.to_value(z), self.heads)
        total = query @ key.sum(dim=2)[..., None]
        return self.to_out(together(query + contracted(query, key, value) / total))
