"""Linear interpolation from the points of a triangle mesh to any places."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

from calm_pde.solvers.mesh.triangles import TriangleMesh

_CANDIDATES = 32


class Interpolation:
    """Barycentric weights of places in the triangles that hold them.

    A place just beyond the boundary, as on a curve whose chords the mesh has, takes the nearest edge of a triangle.
    """

    def __init__(self, mesh: TriangleMesh, places: np.ndarray) -> None:
        corners = mesh.points[mesh.cells]
        _, near = cKDTree(corners.mean(axis=1)).query(places, k=min(_CANDIDATES, len(mesh.cells)))
        weights = _barycentric(corners[near], places[:, None])
        best = np.argmax(weights.min(axis=2), axis=1)
        rows = np.arange(len(places))
        self.outside = np.maximum(-weights[rows, best].min(axis=1), 0.0)
        held = np.maximum(weights[rows, best], 0.0)
        self._weights, self._nodes = held / held.sum(axis=1, keepdims=True), mesh.cells[near[rows, best]]

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """(channel, place) of (channel, point)."""
        return np.einsum("cpk,pk->cp", values[:, self._nodes], self._weights)


def _barycentric(corners: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(place, candidate, 3)."""
    parts = []
    for corner in range(3):
        one, other = (corners[..., (corner + step) % 3, :] - places for step in (1, 2))
        parts.append(one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0])
    found = np.stack(parts, axis=-1)
    return found / found.sum(axis=-1, keepdims=True)
