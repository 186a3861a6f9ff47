"""Dense Fourier matrices: the independent way to transform, in float64."""

from __future__ import annotations

import itertools
import math

import numpy as np


def wavenumbers(modes: int, dim: int) -> np.ndarray:
    """All kept k (mode, dim): 0 … m−1, −m … −1 on each axis but the last, 0 … m−1 there."""
    full = [*range(modes), *range(-modes, 0)]
    return np.array(list(itertools.product(*[full] * (dim - 1), range(modes))))


def cells(shape: tuple[int, ...]) -> np.ndarray:
    """The positions of all cells of the unit grid, without the endpoint, (cell, dim)."""
    return np.array(list(itertools.product(*[[i / n for i in range(n)] for n in shape])))


def fourier_matrix(k: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """exp(−2πi k·ξ), (mode, point)."""
    return np.exp(-2j * math.pi * k @ positions.T)


def real_inverse_matrix(k: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """(point, mode) of which Re(matrix · V) is the real field of a half spectrum: modes off k_last = 0 stand for two."""
    return fourier_matrix(k, positions).conj().T * np.where(k[:, -1] > 0, 2.0, 1.0)
