"""Kernels of the continuous convolution k(a − α) and the distance weighting inside a receptive field.

The geometry of a kernel is a plain function of displacements and parameters, so that a backward can evaluate it again.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import torch
from torch import nn

from calm_pde.geometry import squared_distances
from calm_pde.nn.convolution import Geometry
from calm_pde.nn.fourier import RandomFourierFeatures, fourier_features
from calm_pde.nn.pointwise import linear
from calm_pde.types import Bool, Float, Int, Tensor

Weighting = Literal["softmax", "mean", "none"]


def relative_distances(displacement: Float[Tensor, "query neighbor dim"]) -> Float[Tensor, "query neighbor"]:
    """(‖a − α‖² − min)/(max − min + 1e-8) over each receptive field; padding repeats a neighbor, so it changes neither."""
    squared = squared_distances(displacement)
    shifted = squared - squared.amin(dim=-1, keepdim=True)
    return shifted / (shifted.amax(dim=-1, keepdim=True) + 1e-8)


def neighbor_weights(
    displacement: Float[Tensor, "query neighbor dim"],
    valid: Bool[Tensor, "query neighbor"],
    weighting: Weighting,
    temperature: float,
) -> Float[Tensor, "query neighbor"]:
    """The distance weighting: softmax(−relative distance/T), or 1/M, or 1; zero at padding."""
    if weighting == "softmax":
        return (relative_distances(displacement) / -temperature).masked_fill(~valid, -math.inf).softmax(dim=-1)
    ones = valid.to(displacement.dtype)
    return ones / ones.sum(dim=-1, keepdim=True) if weighting == "mean" else ones


def mlp_features(
    displacement: Float[Tensor, "query neighbor dim"],
    valid: Bool[Tensor, "query neighbor"],
    ids: Int[Tensor, "query"],
    frequencies: Tensor,
    weight: Tensor,
    bias: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    *,
    weighting: Weighting,
    temperature: float,
) -> Float[Tensor, "query neighbor hidden"]:
    """The last hidden layer followed by 1, times the distance weight: the kernel is these features @ filters."""
    hidden = nn.functional.linear(fourier_features(displacement, frequencies), weight, bias)
    if scale is not None and shift is not None:
        ids = ids % len(scale)  # clouds of their own follow one another, each with the same queries
        hidden = torch.addcmul(shift[ids, None], hidden, scale[ids, None])
    share = neighbor_weights(displacement, valid, weighting, temperature)[..., None]
    return torch.cat([nn.functional.gelu(hidden) * share, share], dim=-1)


def distance_matrices(
    displacement: Float[Tensor, "query neighbor dim"],
    valid: Bool[Tensor, "query neighbor"],
    ids: Int[Tensor, "query"],
    log_temperature: Float[Tensor, "in out"],
) -> Float[Tensor, "query neighbor in out"]:
    logits = relative_distances(displacement)[..., None, None] / -log_temperature.exp()
    return logits.masked_fill(~valid[..., None, None], -math.inf).softmax(dim=1)


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

    @property
    def geometry(self) -> Geometry:
        return partial(mlp_features, weighting=self.weighting, temperature=self.temperature)

    @property
    def geometry_parameters(self) -> tuple[Tensor, ...]:
        fixed = (self.fourier.frequencies, self.hidden.weight, self.hidden.bias)
        return fixed if self.scale is None or self.shift is None else (*fixed, self.scale, self.shift)


class DistanceKernel(nn.Module):
    """k_io(a − α) = softmax(−relative distance/T_io): weights by distance alone, one learnable temperature per filter."""

    filters = None

    def __init__(self, in_channels: int, out_channels: int, temperature: float) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.full((in_channels, out_channels), math.log(temperature)))

    @property
    def geometry(self) -> Geometry:
        return distance_matrices

    @property
    def geometry_parameters(self) -> tuple[Tensor, ...]:
        return (self.log_temperature,)
