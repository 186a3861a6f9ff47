"""Triangle meshes with named boundaries: edges, areas, quality, node types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calm_pde.errors import InputError

_SIDES = np.array([[0, 1], [1, 2], [2, 0]])  # corners of a triangle's edges, counterclockwise


@dataclass(frozen=True)
class TriangleMesh:
    """A triangulated region of the plane whose boundary edges have names.

    Args:
        points: (point, 2).
        cells: (cell, 3) corners, counterclockwise.
        boundary: per name the (edge, 2) corners of its edges; every edge of the boundary belongs to one name.
    """

    points: np.ndarray
    cells: np.ndarray
    boundary: Mapping[str, np.ndarray]

    def __post_init__(self) -> None:
        flat = np.flatnonzero(areas(self.points, self.cells) <= 0)
        if len(flat):
            fix = "Turn or remove them; `counterclockwise` turns clockwise ones."
            got = f"{len(flat)} others, first cell {flat[0]}"
            raise InputError("cells", expected="counterclockwise triangles with an area", got=got, fix=fix)
        unused = len(self.points) - len(np.unique(self.cells))
        if unused:
            raise InputError("points", expected="corners of triangles", got=f"{unused} others", fix="Leave them out.")
        named = np.concatenate([np.zeros((0, 2), dtype=int), *self.boundary.values()])
        wanted = {(int(a), int(b)) for a, b in np.sort(boundary_edges(self.cells), axis=1)}
        found = [(int(a), int(b)) for a, b in np.sort(named, axis=1)]
        fix = "Give each edge of the boundary to exactly one name."
        if len(set(found)) != len(found):
            raise InputError("boundary", expected="every edge once", got=f"{len(found) - len(set(found))} twice", fix=fix)
        if set(found) != wanted:
            got = f"{len(wanted - set(found))} without a name and {len(set(found) - wanted)} that do not lie on it"
            raise InputError("boundary", expected="all edges of the boundary", got=got, fix=fix)


def areas(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """(cell,) areas, negative where the corners run clockwise."""
    first, second, third = (points[cells[:, corner]] for corner in range(3))
    (ax, ay), (bx, by) = (second - first).T, (third - first).T
    return 0.5 * (ax * by - ay * bx)


def qualities(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """(cell,) 2 r_in/r_out = (b + c − a)(c + a − b)(a + b − c)/(abc): 1 if equilateral, 0 if flat, negative if inverted."""
    corners = points[cells]
    a, b, c = (np.linalg.norm(corners[:, one] - corners[:, other], axis=1) for one, other in _SIDES)
    return np.sign(areas(points, cells)) * (b + c - a) * (c + a - b) * (a + b - c) / (a * b * c)


def counterclockwise(points: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """The same triangles with the clockwise ones turned."""
    return np.where((areas(points, cells) < 0)[:, None], cells[:, [0, 2, 1]], cells)


def edges(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(edge, 2) each edge once with ascending ends, and (cell, 3) which of them joins corners 0–1, 1–2 and 2–0."""
    sides = np.sort(cells[:, _SIDES].reshape(-1, 2), axis=1)
    found, place = np.unique(sides, axis=0, return_inverse=True)
    return found, place.reshape(-1, 3)


def boundary_edges(cells: np.ndarray) -> np.ndarray:
    """(edge, 2) the edges of only one triangle, running with that triangle's corners: the region lies to their left."""
    _, place = edges(cells)
    alone = np.bincount(place.ravel())[place] == 1
    return cells[:, _SIDES][alone]


def without_unused(points: np.ndarray, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points that are corners, cells renumbered to them, and which points these were."""
    used, place = np.unique(cells, return_inverse=True)
    return points[used], place.reshape(cells.shape), used


def node_types(mesh: TriangleMesh, codes: Mapping[str, int], interior: int = 0) -> np.ndarray:
    """(point,) the code of the boundary that a point lies on; where boundaries meet, the last one in `codes` wins."""
    unknown = sorted(mesh.boundary.keys() - codes.keys())
    if unknown:
        got = f"none for {', '.join(unknown)}"
        raise InputError("codes", expected="a node type for every boundary", got=got, fix=f"Known are: {', '.join(codes)}.")
    types = np.full(len(mesh.points), interior, dtype=np.int32)
    for name, code in codes.items():
        if name in mesh.boundary:
            types[mesh.boundary[name]] = code
    return types
