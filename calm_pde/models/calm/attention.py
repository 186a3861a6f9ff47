"""Attention over latent tokens that combines scaled dot products with positions (paper, appendix on the processor)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from calm_pde.geometry import squared_distances, wrap
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


def pairwise_squared_distances(
    positions: Float[Tensor, "*sample token dim"], periodic: tuple[bool, ...]
) -> Float[Tensor, "*sample token token"]:
    return squared_distances(wrap(positions[..., :, None, :] - positions[..., None, :, :], periodic))


class CombinedAttention(nn.Module):
    """The weights of softmax(LN(HW^Q) LN(HW^K)ᵀ/√(head width) − ‖p_i − p_j‖²) HW^V per head, then one output map."""

    declared_matrices: ClassVar[dict[str, Matrices]] = {"to_qkv.weight": Matrices(parts=3)}

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = linear(width, 3 * width, generator)
        self.norm_query = nn.LayerNorm(width // heads)
        self.norm_key = nn.LayerNorm(width // heads)
        self.to_out = linear(width, width, generator)
