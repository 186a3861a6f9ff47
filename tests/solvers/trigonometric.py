"""Values between the points of a periodic grid, exactly for what the grid holds."""

from __future__ import annotations

import numpy as np


def interpolated(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The trigonometric interpolant of values at i/n per axis, (…, *grid), at any points (point, dim) of the unit torus."""
    dim = points.shape[-1]
    grid, leading = values.shape[-dim:], values.shape[:-dim]
    modes = np.fft.fftn(values, axes=tuple(range(-dim, 0)), norm="forward").reshape(-1, *grid)
    sums = np.einsum("pk,lk...->lp...", _basis(points[:, 0], grid[0]), modes)
    for axis in range(1, dim):
        sums = np.einsum("pk,lpk...->lp...", _basis(points[:, axis], grid[axis]), sums)
    return sums.real.reshape(*leading, len(points))


def _basis(places: np.ndarray, count: int) -> np.ndarray:
    """e^{2πikx} by place and wave; the wave n/2, which the grid can't tell from −n/2, is cos πnx."""
    basis = np.exp(2j * np.pi * np.outer(places, np.fft.fftfreq(count, 1 / count)))
    if count % 2 == 0:
        basis[:, count // 2] = np.cos(np.pi * count * places)
    return basis
