"""The median dual of a triangle mesh: control volumes around its points, their faces, and gradients by least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from calm_pde.solvers.mesh.triangles import TriangleMesh, areas, boundary_edges, edges


@dataclass(frozen=True)
class Side:
    """Edges of one named boundary.

    Args:
        ends: (2, edge), the region to their left.
        normals: (2, edge) outward, as long as the edges.
    """

    ends: np.ndarray
    normals: np.ndarray


class DualMesh:
    """Control volumes bounded by the lines from the middles of edges to the middles of triangles.

    `ends` (2, edge) are the points of an edge i → j, `offsets` (2, edge) x_j − x_i, and `normals` (2, edge) the integral of the
    normal over the face between the two volumes, from i to j. `outflow` (point, edge) sums what leaves a volume through its
    faces. `sides` are the boundaries by name.
    """

    def __init__(self, mesh: TriangleMesh) -> None:
        points, cells = mesh.points, mesh.cells
        pairs, place = edges(cells)
        self.mesh, self.ends = mesh, np.ascontiguousarray(pairs.T)
        self.offsets = (points[pairs[:, 1]] - points[pairs[:, 0]]).T
        self.normals = _face_normals(points, cells, pairs, place)
        shares = np.repeat(areas(points, cells) / 3, 3)
        self.volumes = np.bincount(cells.ravel(), weights=shares, minlength=len(points))
        numbers = np.arange(len(pairs))
        signs = np.concatenate([np.ones(len(pairs)), -np.ones(len(pairs))])
        shape = (len(points), len(pairs))
        self.outflow = csr_array((signs, (self.ends.ravel(), np.concatenate([numbers, numbers]))), shape=shape)
        self._slopes = _least_squares(self.ends, self.offsets, len(points))
        self.sides = _sides(mesh)

    def gradients(self, values: np.ndarray) -> np.ndarray:
        """(2, channel, point) of (channel, point): least squares over a point's edges, each weighted by 1/length²."""
        found = self._slopes @ np.ascontiguousarray(values.T)
        return np.ascontiguousarray(found.reshape(2, -1, len(values)).transpose(0, 2, 1))

    def at_points(self, shares: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """(channel, point) sums of shares (channel, n) that belong to the points `nodes` (n,)."""
        count = len(self.volumes)
        return np.stack([np.bincount(nodes, weights=share, minlength=count) for share in shares])


def _face_normals(points: np.ndarray, cells: np.ndarray, pairs: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Per edge the sum over its triangles of the line from its middle to the triangle's, turned to the right."""
    corners = points[cells]
    lines = corners.mean(axis=1)[:, None] - 0.5 * (corners + np.roll(corners, -1, axis=1))
    forward = np.where(cells == pairs[place, 0], 1.0, -1.0)  # whether the triangle runs along the edge from i to j
    turned = np.stack([lines[..., 1], -lines[..., 0]]) * forward
    return np.stack([np.bincount(place.ravel(), weights=part.ravel(), minlength=len(pairs)) for part in turned])


def _least_squares(ends: np.ndarray, offsets: np.ndarray, count: int) -> csr_array:
    """(2·point, point): x slopes, then y slopes."""
    both, across = np.tile(offsets, 2) * np.repeat([1.0, -1.0], ends.shape[1]), ends[::-1].ravel()
    here = ends.ravel()
    weights = 1 / np.square(both).sum(axis=0)
    xx, xy, yy = (np.bincount(here, weights * both[a] * both[b], count) for a, b in ((0, 0), (0, 1), (1, 1)))
    determinant = (xx * yy - xy**2)[here]
    x = weights * (yy[here] * both[0] - xy[here] * both[1]) / determinant
    y = weights * (xx[here] * both[1] - xy[here] * both[0]) / determinant
    blocks = []
    for slope in (x, y):
        own = -np.bincount(here, slope, count)
        rows, columns = np.concatenate([here, np.arange(count)]), np.concatenate([across, np.arange(count)])
        blocks.append(csr_array((np.concatenate([slope, own]), (rows, columns)), shape=(count, count)))
    return csr_array(vstack(blocks))


def _sides(mesh: TriangleMesh) -> dict[str, Side]:
    running = {tuple(sorted(pair)): pair for pair in boundary_edges(mesh.cells).tolist()}
    sides = {}
    for name, named in mesh.boundary.items():
        ends = np.array([running[tuple(sorted(pair))] for pair in named.tolist()]).T
        along = (mesh.points[ends[1]] - mesh.points[ends[0]]).T
        sides[name] = Side(ends, np.stack([along[1], -along[0]]))
    return sides
