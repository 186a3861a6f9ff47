"""Attention over latent tokens: scaled dot products and what two positions say of each other."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from calm_pde.engine.fourier import fourier_features
from calm_pde.geometry import squared_distances, wrap
from calm_pde.nn.fourier import box_frequencies
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


def displacements(
    positions: Float[Tensor, "*sample token dim"], periodic: tuple[bool, ...]
) -> Float[Tensor, "*sample token token dim"]:
    """p_i − p_j."""
    return wrap(positions[..., :, None, :] - positions[..., None, :, :], periodic)


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


class RelativePositions(nn.Module):
    """b_h(d) = W₂ GELU(W₁ RFF(d) + b₁) for every head h: what it adds to the logit of tokens at displacement d = p_i − p_j.

    So a head may look to one side, and everywhere alike. Frequencies are whole numbers on periodic axes, where b is periodic.
    W₂ starts at zero.
    """

    frequencies: Tensor

    def __init__(
        self, periodic: tuple[bool, ...], heads: int, width: int, std: float, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.register_buffer("frequencies", box_frequencies(periodic, width, std, generator))
        self.expand = linear(width, width, generator)
        self.reduce = linear(width, heads, generator, bias=False)
        nn.init.zeros_(self.reduce.weight)

    def forward(self, d: Float[Tensor, "*sample token token dim"]) -> Float[Tensor, "*sample head token token"]:
        return self.reduce(nn.functional.gelu(self.expand(fourier_features(d, self.frequencies)))).movedim(-1, -3)


def nearness(
    positions: Float[Tensor, "*sample token dim"], periodic: tuple[bool, ...], relative: RelativePositions | None
) -> Float[Tensor, "... token token"]:
    """What positions add to the logits: −‖p_i − p_j‖², for all heads alike, or b_h(p_i − p_j) beside it."""
    d = displacements(positions, periodic)
    alike = -squared_distances(d)
    if relative is None:
        return alike
    found = alike[..., None, :, :] + relative(d)
    return found if found.ndim == 4 else found[None]
