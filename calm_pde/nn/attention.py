"""Attention over latent tokens that combines scaled dot products with positions (paper, appendix on the processor)."""

from __future__ import annotations

import torch
from einops import rearrange
from torch import nn

from calm_pde.geometry import squared_distances, wrap
from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


def pairwise_squared_distances(
    positions: Float[Tensor, "token dim"], periodic: tuple[bool, ...]
) -> Float[Tensor, "token token"]:
    return squared_distances(wrap(positions[:, None] - positions[None, :], periodic))


class CombinedAttention(nn.Module):
    """softmax(LN(HW^Q) LN(HW^K)ᵀ/√(head width) − ‖p_i − p_j‖²) HW^V per head, then one output map."""

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = linear(width, 3 * width, generator)
        self.norm_query = nn.LayerNorm(width // heads)
        self.norm_key = nn.LayerNorm(width // heads)
        self.to_out = linear(width, width, generator)

    def forward(
        self, x: Float[Tensor, "batch token channel"], distances: Float[Tensor, "token token"]
    ) -> Float[Tensor, "batch token channel"]:
        query, key, value = rearrange(self.to_qkv(x), "b t (three h c) -> three b h t c", three=3, h=self.heads)
        query, key = self.norm_query(query), self.norm_key(key)
        logits = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 - distances
        mixed = logits.softmax(dim=-1) @ value
        return self.to_out(rearrange(mixed, "b h t c -> b t (h c)"))
