"""F-FNO's block: a spectral convolution along each axis by itself, summed, then a map of every point alone."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import relu

from calm_pde.engine.precision import full_precision
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import WeightNormLinear, channels_first, linear
from calm_pde.types import Float, Tensor


class AxisConvolution(nn.Module):
    """𝓕⁻¹(R · 𝓕x) along one axis over k = 0 … m−1, with R ~ N(0, 1/(2·width·m)), stored as real numbers (k, in, out, 2)."""

    declared_matrices: ClassVar[dict[str, Matrices]] = {"weight": Matrices(modes=True)}

    def __init__(self, width: int, modes: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        start = torch.randn(modes, width, width, 2, generator=generator)
        self.weight = nn.Parameter(start / math.sqrt(2 * width * modes))

    def forward(self, x: Float[Tensor, "row channel *space"], axis: int) -> Float[Tensor, "row channel *space"]:
        along = x.movedim(axis, -1)
        weight = torch.view_as_complex(self.weight)
        spectrum = torch.fft.rfft(along, dim=-1)[..., : len(weight)]  # scales cancel between both directions
        mixed = torch.einsum("ri...k,kio->ro...k", spectrum, weight)
        return torch.fft.irfft(mixed, n=along.shape[-1], dim=-1).movedim(-1, axis)


class FactorizedBlock(nn.Module):
    """b = W₂ ReLU(W₁ Σ_a S_a(h)), the block's change of h.

    Args:
        expansion: how many times wider the hidden layer is.
        weight_norm: whether W₁ and W₂ are given by directions and lengths.
    """

    def __init__(
        self,
        width: int,
        modes: int,
        dim: int,
        expansion: int,
        weight_norm: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        make = WeightNormLinear if weight_norm else linear
        self.axes = nn.ModuleList(AxisConvolution(width, modes, generator) for _ in range(dim))
        self.expand = make(width, expansion * width, generator)
        self.reduce = make(expansion * width, width, generator)

    def forward(self, h: Float[Tensor, "row channel *space"]) -> Float[Tensor, "row channel *space"]:
        with full_precision(h):
            x = h.to(self.expand.bias.dtype)
            total = self.axes[0](x, 2)
            for axis, convolution in enumerate(self.axes[1:], start=3):
                total = total + convolution(x, axis)
        return channels_first(self.reduce, relu(channels_first(self.expand, total)))
