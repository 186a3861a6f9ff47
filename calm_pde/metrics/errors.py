"""Errors of predicted fields, on physical values; `mask` tells the real points."""

from __future__ import annotations

import math

import numpy as np
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


def _squares(prediction: Tensor, target: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    wrong = prediction - target
    if mask is not None:
        hidden = ~mask[:, None, :, None]
        wrong, target = wrong.masked_fill(hidden, 0.0), target.masked_fill(hidden, 0.0)
    return wrong.square(), target.square()
