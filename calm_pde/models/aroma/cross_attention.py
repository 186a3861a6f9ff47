"""Attention of some tokens to others that they are not part of."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from calm_pde.nn.pointwise import PointwiseMLP, linear
from calm_pde.types import Bool, Float, Tensor


class CrossAttention(nn.Module):
    """softmax(QW^Q (KW^K)ᵀ/√(head width)) VW^V per head without biases, then one output map with a bias.

    Args:
        inputs: how many features queries, keys and values have.
        out: the width of the answer; `width` by default.
    """

    def __init__(
        self, inputs: tuple[int, int, int], width: int, heads: int, generator: torch.Generator | None, out: int | None = None
    ) -> None:
        super().__init__()
        self.heads = heads
        self.to_query, self.to_key, self.to_value = (linear(size, width, generator, bias=False) for size in inputs)
        self.to_out = linear(width, out or width, generator)

    def forward(
        self,
        queries: Float[Tensor, "_ query in"],
        keys: Float[Tensor, "_ token _"],
        values: Float[Tensor, "_ token _"],
        mask: Bool[Tensor, "_ token"] | None = None,
    ) -> Float[Tensor, "batch query out"]:
        """Whatever has a batch axis of 1 is the same for all; tokens where the mask is False are not seen."""
        given = (self.to_query(queries), self.to_key(keys), self.to_value(values))
        batch = max(len(part) for part in (*given, *(() if mask is None else (mask,))))
        query, key, value = (self._by_head(part).expand(batch, -1, -1, -1) for part in given)
        seen = None if mask is None else mask[:, None, None, :]
        found = scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return self.to_out(found.transpose(1, 2).flatten(2))

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


class ReadBlock(nn.Module):
    """x + Attn(LN x; LN keys, LN values), then x + MLP(LN x): tokens read what they are not part of."""

    def __init__(self, width: int, key: int, value: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.norm_query, self.norm_key, self.norm_value = nn.LayerNorm(width), nn.LayerNorm(key), nn.LayerNorm(value)
        self.attention = CrossAttention((width, key, value), width, heads, generator)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = PointwiseMLP(width, 4 * width, generator)

    def forward(
        self,
        x: Float[Tensor, "_ query channel"],
        keys: Float[Tensor, "_ token _"],
        values: Float[Tensor, "_ token _"],
        mask: Bool[Tensor, "_ token"] | None = None,
    ) -> Float[Tensor, "batch query channel"]:
        x = x + self.attention(self.norm_query(x), self.norm_key(keys), self.norm_value(values), mask)
        return x + self.mlp(self.norm_mlp(x))
