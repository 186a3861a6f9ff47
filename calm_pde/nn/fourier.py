"""Random Fourier features of coordinates and displacements."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.engine.fourier import fourier_features
from calm_pde.types import Float, Tensor


class RandomFourierFeatures(nn.Module):
    """RFF(d) = [sin(2π d B), cos(2π d B)] with frozen B ~ N(0, std²) of shape (dim, width/2)."""

    frequencies: Tensor

    def __init__(self, dim: int, width: int, std: float, generator: torch.Generator | None) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("frequencies", std * torch.randn(dim, width // 2, generator=generator))

    def forward(self, d: Float[Tensor, "*axes dim"]) -> Float[Tensor, "*axes feature"]:
        return fourier_features(d, self.frequencies)


def box_frequencies(
    periodic: tuple[bool, ...], width: int, std: float, generator: torch.Generator | None
) -> Float[Tensor, "dim frequency"]:
    """width/2 frequencies from N(0, std²), whole numbers along periodic axes, so that features of them are periodic there."""
    drawn = std * torch.randn(len(periodic), width // 2, generator=generator)
    return torch.where(torch.tensor(periodic)[:, None], drawn.round(), drawn)
