"""Attention over latent tokens that combines scaled dot products with positions (paper, appendix on the processor)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from calm_pde.geometry import squared_distances, wrap
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


def pairwise_squared_distances(
    positions: Float[Tensor, "token dim"], periodic: tuple[bool, ...]
) -> Float[Tensor, "token token"]:
    return squared_distances(wrap(positions[:, None] - positions[None, :], periodic))


class CombinedAttention(nn.Module):
    """softmax(LN(HW^Q) LN(HW^K)ᵀ/√(head width) − ‖p_i − p_j‖²) HW^V per head, then one output map."""

    declared_matrices: ClassVar[dict[str, Matrices]] = {"to_qkv.weight": Matrices(parts=3)}

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = linear(width, 3 * width, generator)
        self.norm_query = nn.LayerNorm(width // heads)
        self.norm_key = nn.LayerNorm(width // heads)
        self.to_out = linear(width, width, generator)

    def forward(
        self, x: Float[Tensor, "batch token channel"], minus_distances: Float[Tensor, "token token"]
    ) -> Float[Tensor, "batch token channel"]:
        size = (x.shape[-1] // self.heads,)
        query, key, value = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(dim=2)
        query = layer_norm(query, size, self.norm_query.weight, self.norm_query.bias)
        key = layer_norm(key, size, self.norm_key.weight, self.norm_key.bias)
        by_head = (query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2))
        return self.to_out(scaled_dot_product_attention(*by_head, attn_mask=minus_distances).transpose(1, 2).flatten(2))
