"""Integrals over a mesh, for the drift of conserved quantities."""

from __future__ import annotations

import math

import numpy as np


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
