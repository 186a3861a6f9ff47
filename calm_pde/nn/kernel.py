"""Kernels of the continuous convolution k(a − α) and the distance weighting inside a receptive field."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn

from calm_pde.geometry import squared_distances
from calm_pde.neighbors import Neighbors
from calm_pde.nn.convolution import convolve_dense, convolve_factored
from calm_pde.nn.fourier import RandomFourierFeatures
from calm_pde.nn.pointwise import linear
from calm_pde.types import Bool, Float, Tensor

Weighting = Literal["softmax", "mean", "none"]


def relative_distances(
    displacement: Float[Tensor, "cloud query neighbor dim"],
) -> Float[Tensor, "cloud query neighbor"]:
    """(‖a − α‖² − min)/(max − min + 1e-8) over each receptive field; padding repeats a neighbor, so it changes neither."""
    squared = squared_distances(displacement)
    shifted = squared - squared.amin(dim=-1, keepdim=True)
    return shifted / (shifted.amax(dim=-1, keepdim=True) + 1e-8)


def neighbor_weights(
    displacement: Float[Tensor, "cloud query neighbor dim"],
    valid: Bool[Tensor, "cloud query neighbor"],
    weighting: Weighting,
    temperature: float,
) -> Float[Tensor, "cloud query neighbor"]:
    """The distance weighting: softmax(−relative distance/T), or 1/M, or 1; zero at padding."""
    if weighting == "softmax":
        return (relative_distances(displacement) / -temperature).masked_fill(~valid, -math.inf).softmax(dim=-1)
    ones = valid.to(displacement.dtype)
    return ones / ones.sum(dim=-1, keepdim=True) if weighting == "mean" else ones


class MLPKernel(nn.Module):
    """k(a − α) = (W₂ σ((W₁ RFF(a − α) + b₁) ⊙ γ_a + β_a) + b₂) · distance weight (paper, modulated kernel function).

    `filters` holds W₂ as (hidden, in, out) and, in its last row, the base filter b₂ that every translation shares.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        dim: int,
        *,
        weighting: Weighting,
        temperature: float,
        num_modulated: int | None,
        width: int,
        fourier_width: int,
        fourier_std: float,
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self.weighting: Weighting = weighting
        self.temperature = temperature
        self.fourier = RandomFourierFeatures(dim, fourier_width, fourier_std, generator)
        self.hidden = linear(fourier_width, width, generator)
        self.filters = nn.Parameter(torch.empty(width + 1, in_channels, out_channels))
        residual, base = 1 / math.sqrt(width), math.sqrt(3 / in_channels)
        nn.init.uniform_(self.filters[:-1], -residual, residual, generator=generator)
        nn.init.uniform_(self.filters[-1:], -base, base, generator=generator)
        self.scale = self.shift = None
        if num_modulated is not None:
            self.scale = nn.Parameter(torch.rand(num_modulated, width, generator=generator))
            self.shift = nn.Parameter(torch.zeros(num_modulated, width))

    def features(
        self, displacement: Float[Tensor, "cloud query neighbor dim"], valid: Bool[Tensor, "cloud query neighbor"]
    ) -> Float[Tensor, "cloud query neighbor hidden"]:
        """The last hidden layer followed by 1, times the distance weight: the kernel is these features @ `filters`."""
        hidden = self.hidden(self.fourier(displacement))
        if self.scale is not None and self.shift is not None:
            hidden = hidden * self.scale[:, None] + self.shift[:, None]
        weight = neighbor_weights(displacement, valid, self.weighting, self.temperature)[..., None]
        return torch.cat([nn.functional.gelu(hidden) * weight, weight], dim=-1)

    def forward(
        self,
        x: Float[Tensor, "cloud row point in"],
        displacement: Float[Tensor, "#cloud query neighbor dim"],
        neighbors: Neighbors,
    ) -> Float[Tensor, "cloud row query out"]:
        return convolve_factored(self.features(displacement, neighbors.valid), self.filters, x, neighbors.indices)


class DistanceKernel(nn.Module):
    """k_io(a − α) = softmax(−relative distance/T_io): weights by distance alone, one learnable temperature per filter."""

    def __init__(self, in_channels: int, out_channels: int, temperature: float) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.full((in_channels, out_channels), math.log(temperature)))

    def forward(
        self,
        x: Float[Tensor, "cloud row point in"],
        displacement: Float[Tensor, "#cloud query neighbor dim"],
        neighbors: Neighbors,
    ) -> Float[Tensor, "cloud row query out"]:
        logits = relative_distances(displacement)[..., None, None] / -self.log_temperature.exp()
        kernel = logits.masked_fill(~neighbors.valid[..., None, None], -math.inf).softmax(dim=-3)
        return convolve_dense(kernel, x, neighbors.indices)
