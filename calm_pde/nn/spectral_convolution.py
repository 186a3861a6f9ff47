"""Convolution on a grid by its low Fourier modes: transform, mix the channels of every kept mode, transform back."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from calm_pde.engine.precision import full_precision
from calm_pde.nn.matrices import Matrices
from calm_pde.types import Complex, Float, Tensor


def kept_shape(modes: int, dim: int) -> tuple[int, ...]:
    """Modes kept along each axis: k = 0 … m−1, −m … −1; on the last one, since fields are real, k = 0 … m−1."""
    return (*(2 * modes,) * (dim - 1), modes)


def smallest_shape(modes: int, dim: int) -> tuple[int, ...]:
    """The smallest grid whose spectrum has all kept modes, each once."""
    return (*(2 * modes,) * (dim - 1), max(1, 2 * modes - 2))


def kept_modes(x: Float[Tensor, "row channel *space"], modes: int) -> Complex[Tensor, "row channel *mode"]:
    """The low corner of the unscaled FFT; axis after axis, so that later transforms run over kept modes only."""
    spectrum = torch.fft.rfft(x, dim=-1)[..., :modes]
    for axis in range(x.ndim - 2, 1, -1):
        whole = torch.fft.fft(spectrum, dim=axis)
        low, high = whole.narrow(axis, 0, modes), whole.narrow(axis, whole.shape[axis] - modes, modes)
        spectrum = torch.cat([low, high], dim=axis)
    return spectrum


def field_of_modes(
    spectrum: Complex[Tensor, "row channel *mode"], shape: tuple[int, ...]
) -> Float[Tensor, "row channel *space"]:
    """The real field with these kept modes and no others, by the inverse FFT (which divides by the number of cells)."""
    modes = spectrum.shape[-1]
    for axis, size in enumerate(shape[:-1], start=2):
        low, high = spectrum.split(modes, dim=axis)
        gap = spectrum.new_zeros(()).expand(*spectrum.shape[:axis], size - 2 * modes, *spectrum.shape[axis + 1 :])
        spectrum = torch.fft.ifft(torch.cat([low, gap, high], dim=axis), dim=axis)
    return torch.fft.irfft(spectrum, n=shape[-1], dim=-1)


class ModeMixing(nn.Module):
    """y[o, k] = Σ_i x[i, k]·R[k, i, o] for every kept mode k, with R = (u + i v)/(in·out), u, v ~ U[0, 1).

    R is stored as real numbers with a last axis of 2, which optimizers and files take as they take any weight.
    """

    declared_matrices: ClassVar[dict[str, Matrices]] = {"weight": Matrices(modes=True)}

    def __init__(
        self, in_channels: int, out_channels: int, modes: int, dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        shape = (*kept_shape(modes, dim), in_channels, out_channels, 2)
        self.weight = nn.Parameter(torch.rand(shape, generator=generator) / (in_channels * out_channels))

    def forward(self, spectrum: Complex[Tensor, "row in *mode"]) -> Complex[Tensor, "row out *mode"]:
        rows = torch.view_as_real(spectrum.flatten(2).permute(2, 0, 1).contiguous()).flatten(2)
        weight = self.weight.flatten(0, -4)
        re, im = weight.unbind(dim=-1)
        # (Re R, Im R) over (−Im R, Re R): one batch of real products, where complex ones would go mode by mode on a CPU
        both = torch.stack([weight, torch.stack([-im, re], dim=-1)], dim=2)
        mixed = torch.bmm(rows, both.flatten(3).flatten(1, 2)).unflatten(2, (-1, 2))
        return torch.view_as_complex(mixed).permute(1, 2, 0).unflatten(2, spectrum.shape[2:])


class SpectralConvolution(nn.Module):
    """𝓕⁻¹(R · 𝓕x) over the kept modes, for fields on a grid of any size that has them."""

    def __init__(
        self, in_channels: int, out_channels: int, modes: int, dim: int, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.modes = modes
        self.mixing = ModeMixing(in_channels, out_channels, modes, dim, generator)

    def forward(self, x: Float[Tensor, "row in *space"]) -> Float[Tensor, "row out *space"]:
        with full_precision(x):
            x = x.to(self.mixing.weight.dtype)
            return field_of_modes(self.mixing(kept_modes(x, self.modes)), tuple(x.shape[2:]))


def numbers_of_modes(modes: int, dim: int, channels: int) -> int:
    """Real numbers of the modes that a layer keeps, 2 each, though its frames pass by at all points too."""
    return 2 * (2 * modes) ** (dim - 1) * modes * channels
