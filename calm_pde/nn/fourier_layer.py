"""The layer of an FNO: a convolution by low modes beside a map of every point alone."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.nn.pointwise import channels_first, linear
from calm_pde.nn.spectral_convolution import SpectralConvolution
from calm_pde.types import Float, Tensor


class FourierLayer(nn.Module):
    """h ↦ K(h) + W h + b, with K a spectral convolution."""

    def __init__(self, width: int, modes: int, dim: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.spectral = SpectralConvolution(width, width, modes, dim, generator)
        self.skip = linear(width, width, generator)

    def forward(self, h: Float[Tensor, "row channel *space"]) -> Float[Tensor, "row channel *space"]:
        return self.spectral(h) + channels_first(self.skip, h)
