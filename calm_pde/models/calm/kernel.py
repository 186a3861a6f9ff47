"""Kernels of the continuous convolution k(a − α), with their weights."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar

import torch
from torch import nn

from calm_pde.engine.chunks import Geometry
from calm_pde.engine.kernel_features import Weighting, distance_matrices, mlp_features
from calm_pde.nn.fourier import RandomFourierFeatures
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import QuietMLP, linear
from calm_pde.types import Float, Tensor


class MLPKernel(nn.Module):
    """k(a − α) = (W₂ σ((W₁ RFF(a − α) + b₁) ⊙ γ_a + β_a) + b₂) · distance weight (paper, modulated kernel function).

    `filters` holds W₂ as (hidden, in, out) and, in its last row, the base filter b₂ that every translation shares. With a
    `modulator` γ and β are those of each sample's parameters.
    """

    declared_matrices: ClassVar[dict[str, Matrices]] = {"filters": Matrices()}

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
        relative: bool = False,
    ) -> None:
        super().__init__()
        self.weighting: Weighting = weighting
        self.temperature, self.relative = temperature, relative
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
        self.modulator: KernelModulator | None = None

    @property
    def geometry(self) -> Geometry:
        return partial(mlp_features, weighting=self.weighting, temperature=self.temperature, relative=self.relative)

    def geometry_parameters(self, parameters: Float[Tensor, "batch parameter"] | None = None) -> tuple[Tensor, ...]:
        """What `geometry` is told beside displacements; γ and β of every sample, one behind the other, where they differ."""
        fixed = (self.fourier.frequencies, self.hidden.weight, self.hidden.bias)
        if self.scale is None or self.shift is None:
            return fixed
        if parameters is None or self.modulator is None:
            return *fixed, self.scale, self.shift
        return *fixed, *self.modulator(parameters, self.scale, self.shift)


class KernelModulator(QuietMLP):
    """(g, b)(θ) = W₂ GELU(W₁ θ + b₁) + b₂: where a sample's parameters are θ, γ_a is (1 + g) ⊙ γ_a and β_a is β_a + b.

    Alike for all queries a of a layer: their kernels become finer or coarser together.
    """

    def __init__(self, parameters: int, width: int, generator: torch.Generator) -> None:
        super().__init__(parameters, width, 2 * width, generator)

    def forward(
        self,
        parameters: Float[Tensor, "batch parameter"],
        scale: Float[Tensor, "query hidden"],
        shift: Float[Tensor, "query hidden"],
    ) -> tuple[Float[Tensor, "sample_query hidden"], Float[Tensor, "sample_query hidden"]]:
        gain, more = self.said(parameters)[:, None].chunk(2, dim=-1)
        return ((1 + gain) * scale).flatten(0, 1), (shift + more).flatten(0, 1)


class DistanceKernel(nn.Module):
    """k_io(a − α) = softmax(−relative distance/T_io): weights by distance alone, one learnable temperature per filter."""

    filters = None
    modulator = None

    def __init__(self, in_channels: int, out_channels: int, temperature: float) -> None:
        super().__init__()
        self.log_temperature = nn.Parameter(torch.full((in_channels, out_channels), math.log(temperature)))

    @property
    def geometry(self) -> Geometry:
        return distance_matrices

    def geometry_parameters(self, parameters: Tensor | None = None) -> tuple[Tensor, ...]:
        return (self.log_temperature,)
