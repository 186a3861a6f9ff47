"""What of a mesh the page draws: its points, triangles, and, of a volume, slices and a thinned cloud."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from calm_pde.report.packing import packed

_MOST = 50_000  # points of a volume
_CLOUD = 0.3  # of them, those that are spread over the volume where slices don't need the room
_POSITIONS = (0.5, 0.25, 0.75)  # where slices cut, the first ones first


@dataclass(frozen=True)
class Slice:
    """A plane through a volume: which stored points lie in it, and the triangles between them."""

    axis: int
    at: float
    points: np.ndarray
    triangles: np.ndarray | None


@dataclass(frozen=True)
class DrawnMesh:
    """The points that are stored, (point, dim) physical, and which of the mesh's `total` they are."""

    points: np.ndarray
    stored: np.ndarray
    triangles: np.ndarray | None
    total: int
    slices: tuple[Slice, ...] = ()

    def content(self) -> dict[str, Any]:
        slices = [
            {"axis": cut.axis, "at": cut.at, "points": packed(cut.points), "triangles": _packed(cut.triangles)}
            for cut in self.slices
        ]
        return {
            "points": packed(self.points.astype(np.float32)),
            "triangles": _packed(self.triangles),
            "total": self.total,
            "slices": slices,
        }


def drawn_mesh(points: np.ndarray, cells: np.ndarray | None, shape: tuple[int, ...] | None, most: int = _MOST) -> DrawnMesh:
    """Lines and planes whole; volumes as slices through their middle and quarters and a spread of points, `most` in all.

    Args:
        shape: of a structured mesh whose points come in row-major order.
    """
    shape = shape if shape is not None and math.prod(shape) == len(points) and len(shape) == points.shape[1] else None
    if points.shape[1] == 3:
        return _volume(points, shape, min(most, _MOST))
    triangles = None
    if points.shape[1] == 2:
        triangles = _triangles(cells) if cells is not None else None if shape is None else grid_triangles(shape)
    return DrawnMesh(points, np.arange(len(points)), triangles, len(points))


def thinned(mesh: DrawnMesh, most: int, shape: tuple[int, ...] | None) -> DrawnMesh:
    """At most so many of its points: every n-th along each axis of a plane grid, and elsewhere an even draw."""
    count = len(mesh.points)
    if count <= most:
        return mesh
    if shape is not None and len(shape) == 2 and math.prod(shape) == count:
        stride = math.ceil(math.sqrt(count / most))
        kept = np.arange(count).reshape(shape)[::stride, ::stride]
        return DrawnMesh(mesh.points[kept.ravel()], mesh.stored[kept.ravel()], grid_triangles(kept.shape), mesh.total)
    kept = np.sort(np.random.default_rng(0).permutation(count)[:most])
    return DrawnMesh(mesh.points[kept], mesh.stored[kept], None, mesh.total)


def grid_triangles(shape: tuple[int, ...]) -> np.ndarray:
    """(triangle, 3): every cell of a plane grid in row-major order, cut in two."""
    index = np.arange(math.prod(shape)).reshape(shape)
    a, b, c, d = (part.ravel() for part in (index[:-1, :-1], index[1:, :-1], index[1:, 1:], index[:-1, 1:]))
    return np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


def _triangles(cells: np.ndarray) -> np.ndarray | None:
    """Triangles themselves, quadrangles cut in two."""
    if cells.shape[1] == 3:
        return cells
    return np.concatenate([cells[:, [0, 1, 2]], cells[:, [0, 2, 3]]]) if cells.shape[1] == 4 else None


def _volume(points: np.ndarray, shape: tuple[int, ...] | None, most: int) -> DrawnMesh:
    cuts: list[tuple[int, np.ndarray, np.ndarray | None]] = []
    room = int(most * (1 - _CLOUD))
    for position in _POSITIONS:
        found = [_cut(points, shape, axis, position) for axis in range(3)]
        size = sum(len(cut) for _, cut, _ in found)
        if cuts and size > room:
            break
        cuts += found
        room -= size
    taken = np.unique(np.concatenate([cut for _, cut, _ in cuts]))
    free = np.setdiff1d(np.arange(len(points)), taken)
    free = np.random.default_rng(0).permutation(free)[: max(0, most - len(taken))]
    stored = np.sort(np.concatenate([taken, free]))
    slices = []
    for axis, cut, triangles in cuts:
        own = np.searchsorted(stored, cut)
        at = float(np.median(points[cut, axis]))
        slices.append(Slice(axis, at, own, None if triangles is None else own[triangles]))
    return DrawnMesh(points[stored], stored, None, len(points), tuple(slices))


def _cut(points: np.ndarray, shape: tuple[int, ...] | None, axis: int, position: float) -> tuple[int, np.ndarray, Any]:
    """The layer of a grid, with triangles, or of a cloud the points nearest to the plane, as many as a layer would have."""
    if shape is not None:
        layer = np.take(np.arange(len(points)).reshape(shape), int(position * shape[axis]), axis=axis)
        return axis, layer.ravel(), grid_triangles(layer.shape)
    along = points[:, axis]
    plane = along.min() + position * np.ptp(along)
    count = min(len(points), math.ceil(2 * len(points) ** (2 / 3)))
    return axis, np.sort(np.argpartition(np.abs(along - plane), count - 1)[:count]), None


def _packed(indices: np.ndarray | None) -> dict[str, Any] | None:
    return None if indices is None else packed(indices.astype(np.uint32))
