"""Random Fourier features of coordinates and displacements."""

from __future__ import annotations

import math

import torch
from torch import nn

from calm_pde.nn.precision import full_precision
from calm_pde.types import Float, Tensor


def fourier_features(d: Float[Tensor, "*axes dim"], frequencies: Float[Tensor, "dim half"]) -> Float[Tensor, "*axes feature"]:
    with full_precision(d):
        phase = d @ (2 * math.pi * frequencies)
    return torch.cat([phase.sin(), phase.cos()], dim=-1)


class RandomFourierFeatures(nn.Module):
    """RFF(d) = [sin(2π d B), cos(2π d B)] with frozen B ~ N(0, std²) of shape (dim, width/2)."""

    frequencies: Tensor

    def __init__(self, dim: int, width: int, std: float, generator: torch.Generator | None) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("frequencies", std * torch.randn(dim, width // 2, generator=generator))

    def forward(self, d: Float[Tensor, "*axes dim"]) -> Float[Tensor, "*axes feature"]:
        return fourier_features(d, self.frequencies)
