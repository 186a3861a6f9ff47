"""Errors of predicted fields, relative to their own size, and the losses of training; `mask` tells the real points."""

from __future__ import annotations

import math

import numpy as np
import torch

from calm_pde.types import Bool, Float, Tensor

SMALLEST = 1e-5
"""In a loss, and only there, the squared norm of a normalized target counts as at least this: one near zero does not decide."""


def relative_l2(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    mask: Bool[Tensor, "batch point"] | None = None,
) -> Float[Tensor, "batch time channel"]:
    """‖û − u‖/‖u‖ over points, per sample, frame and channel (the paper's error before its mean), in float64 at any scale.

    Infinite where the prediction is not finite; else NaN where the target is exactly zero, to be left out of means and counted.
    """
    return _relative(prediction, target, mask, (2,))


def relative_l2_spacetime(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    mask: Bool[Tensor, "batch point"] | None = None,
) -> Float[Tensor, "batch channel"]:
    """The same with one norm over space and time, as the paper's Burgers runs take it."""
    return _relative(prediction, target, mask, (1, 2))


def relative_l2_loss(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    mask: Bool[Tensor, "batch point"] | None = None,
    spacetime: bool = False,
) -> Float[Tensor, "batch"]:
    """The loss of normalized fields: √(‖û − u‖²/max(‖u‖², 1e-5)) per frame, or over space and time, and then the mean."""
    wrong, target = _real(prediction - target, mask), _real(target, mask)
    axes = (1, 2) if spacetime else (2,)
    ratio = wrong.square().sum(dim=axes) / target.square().sum(dim=axes).clamp(min=SMALLEST)
    return ratio.sqrt().flatten(1).mean(dim=1)


def band_energies(
    values: Float[Tensor, "batch time point channel"], grid_shape: tuple[int, ...]
) -> dict[str, Float[Tensor, "channel"]]:
    """Σ|û(k)|² over the Fourier modes with |k| below 5, below 13, and above (PDEBench's bands); all bands together: Σu².

    The points are a full, uniform, periodic grid in row-major order.
    """
    axes = tuple(range(2, 2 + len(grid_shape)))
    modes = torch.fft.fftn(values.reshape(*values.shape[:2], *grid_shape, values.shape[-1]), dim=axes, norm="ortho")
    energy = modes.abs().square().sum(dim=(0, 1))
    waves = [torch.fft.fftfreq(n, 1 / n, dtype=energy.dtype, device=energy.device) for n in grid_shape]
    wave = torch.stack(torch.meshgrid(*waves, indexing="ij")).square().sum(dim=0).sqrt()
    bands = {"low": wave < 5, "middle": (wave >= 5) & (wave < 13), "high": wave >= 13}
    return {name: energy[band].sum(dim=0) for name, band in bands.items() if bool(band.any())}


def cell_weights(points: np.ndarray, cells: np.ndarray, periodic: tuple[bool, ...]) -> np.ndarray | None:
    """(point,) weights w with ∫u ≈ Σ w u: each cell's measure shared among its corners, in unit coordinates.

    None where the cells are neither simplices nor plane quadrilaterals.
    """
    dim, corners = points.shape[1], cells.shape[1]
    edges = points[cells[:, 1:]] - points[cells[:, :1]]
    edges = edges - np.floor(edges + 0.5) * np.array(periodic)  # a cell across the seam of a periodic axis is whole
    if corners == dim + 1:
        measure = np.abs(np.linalg.det(edges)) / math.factorial(dim)
    elif (dim, corners) == (2, 4):
        diagonal, sides = edges[:, 1], edges[:, 2] - edges[:, 0]
        measure = np.abs(diagonal[:, 0] * sides[:, 1] - diagonal[:, 1] * sides[:, 0]) / 2
    else:
        return None
    return np.bincount(cells.ravel(), weights=np.repeat(measure / corners, corners), minlength=len(points))


def _relative(prediction: Tensor, target: Tensor, mask: Tensor | None, axes: tuple[int, ...]) -> Tensor:
    target = _real(target, mask).double()
    wrong = _real(prediction, mask).double() - target
    peak = target.abs().amax(dim=axes, keepdim=True)
    scale = torch.where(peak > 0, peak / (2 * torch.frexp(peak).mantissa), 1.0)  # a power of two: scaling by it is exact
    error, size = ((values / scale).square().sum(dim=axes) for values in (wrong, target))
    found = torch.where(size > 0, (error / size).sqrt(), torch.nan)
    return torch.where(torch.isfinite(error), found, torch.inf)


def _real(values: Tensor, mask: Tensor | None) -> Tensor:
    """The values, 0 where no real point is."""
    return values if mask is None else values.masked_fill(~mask[:, None, :, None], 0.0)
