"""A plain transformer block over latent tokens."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import PointwiseMLP, linear
from calm_pde.types import Float, Tensor


class TransformerBlock(nn.Module):
    """x + Attn(LN(x)), then x + MLP(LN(x)); attention is softmax(QKᵀ/√(head width)) V per head, then one output map.

    Args:
        expansion: how many times wider the MLP is inside.
        bias: whether queries, keys and values have one.
    """

    declared_matrices: ClassVar[dict[str, Matrices]] = {"to_qkv.weight": Matrices(parts=3)}

    def __init__(
        self, width: int, heads: int, generator: torch.Generator | None, expansion: int = 2, bias: bool = True
    ) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.to_qkv = linear(width, 3 * width, generator, bias)
        self.to_out = linear(width, width, generator)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = PointwiseMLP(width, expansion * width, generator)

    def forward(self, x: Float[Tensor, "batch token channel"]) -> Float[Tensor, "batch token channel"]:
        query, key, value = self.to_qkv(self.norm_attention(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.to_out(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_mlp(x))
