"""Errors of predicted fields, on physical values; `mask` tells the real points."""

from __future__ import annotations

import torch

from calm_pde.types import Bool, Float, Tensor

SMALLEST = 1e-5
"""The squared norm of a target counts as at least this, so that a field that is nearly zero does not decide."""


def relative_l2(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    mask: Bool[Tensor, "batch point"] | None = None,
) -> Float[Tensor, "batch time channel"]:
    """‖û − u‖/‖u‖ over points, per sample, frame and channel (the paper's error before its mean)."""
    error, size = _squares(prediction, target, mask)
    return (error.sum(dim=2) / size.sum(dim=2).clamp(min=SMALLEST)).sqrt()


def relative_l2_spacetime(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    mask: Bool[Tensor, "batch point"] | None = None,
) -> Float[Tensor, "batch channel"]:
    """The same with one norm over space and time, as the paper's Burgers runs take it."""
    error, size = _squares(prediction, target, mask)
    return (error.sum(dim=(1, 2)) / size.sum(dim=(1, 2)).clamp(min=SMALLEST)).sqrt()


def root_mean_square(
    values: Float[Tensor, "batch time point channel"], mask: Bool[Tensor, "batch point"] | None = None
) -> Float[Tensor, "batch time channel"]:
    if mask is None:
        return values.square().mean(dim=2).sqrt()
    real = mask[:, None, :, None]
    return (values.masked_fill(~real, 0.0).square().sum(dim=2) / real.sum(dim=2)).sqrt()


def spectral_bands(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    grid_shape: tuple[int, ...],
) -> dict[str, Float[Tensor, "channel"]]:
    """Relative L2 of the Fourier modes with |k| below 5, below 13, and above, on a full grid (PDEBench's bands)."""
    axes = tuple(range(2, 2 + len(grid_shape)))
    shape = (*prediction.shape[:2], *grid_shape, prediction.shape[-1])
    wrong = torch.fft.fftn((prediction - target).reshape(shape), dim=axes).abs().square()
    whole = torch.fft.fftn(target.reshape(shape), dim=axes).abs().square()
    waves = torch.meshgrid(*(torch.fft.fftfreq(n, 1 / n, dtype=wrong.dtype) for n in grid_shape), indexing="ij")
    wave = torch.stack(waves).square().sum(dim=0).sqrt()[..., None]
    bands = {"low": wave < 5, "middle": (wave >= 5) & (wave < 13), "high": wave >= 13}
    over = tuple(range(wrong.ndim - 1))
    return {
        name: ((wrong * band).sum(dim=over) / (whole * band).sum(dim=over).clamp(min=SMALLEST)).sqrt()
        for name, band in bands.items()
        if bool(band.any())
    }


def _squares(prediction: Tensor, target: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    wrong = prediction - target
    if mask is not None:
        hidden = ~mask[:, None, :, None]
        wrong, target = wrong.masked_fill(hidden, 0.0), target.masked_fill(hidden, 0.0)
    return wrong.square(), target.square()
