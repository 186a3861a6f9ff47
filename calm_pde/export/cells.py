"""Geometry as VTK wants it: cell types by corner count, the cells of a grid, and grids that are images."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from calm_pde.errors import InputError
from calm_pde.geometry import tensor_grid

VERTEX, LINE, TRIANGLE, POLYGON, QUAD, TETRA, HEXAHEDRON, WEDGE, PYRAMID = 1, 3, 5, 7, 9, 10, 12, 13, 14
_BY_CORNERS = {1: VERTEX, 2: LINE, 3: TRIANGLE}
_PLANE = {4: QUAD}
_SPACE = {4: TETRA, 5: PYRAMID, 6: WEDGE, 8: HEXAHEDRON}
_GRID = {1: LINE, 2: QUAD, 3: HEXAHEDRON}
_ROUNDING = 1e-6  # of a coordinate: what float32 may have done to a uniform grid
_BEND = 1e-3  # of a spacing: how far a point may be off without the picture showing it


@dataclass(frozen=True)
class Unstructured:
    """Points with cells of any kind.

    Args:
        points: (point, 3) float64.
        connectivity: the corners of all cells, one cell after the other, int64.
        offsets: (cell + 1,) where each cell begins in `connectivity`, int64.
        types: (cell,) VTK's codes, uint8.
    """

    points: np.ndarray
    connectivity: np.ndarray
    offsets: np.ndarray
    types: np.ndarray

    @property
    def num_points(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class Image:
    """A uniform grid of points; our order has the last axis fastest, VTK's the first.

    Args:
        shape: points along each of two or three axes.
    """

    shape: tuple[int, ...]
    origin: tuple[float, ...]
    spacing: tuple[float, ...]

    @property
    def num_points(self) -> int:
        return int(np.prod(self.shape))

    @property
    def points(self) -> np.ndarray:
        """(point, dim) in our order."""
        axes = zip(self.origin, self.spacing, self.shape, strict=True)
        return tensor_grid(*(start + step * np.arange(size) for start, step, size in axes))

    def volumes(self, values: np.ndarray) -> np.ndarray:
        """(…, point) in our order ─▶ (…, z, y, x), or (…, y, x) of a plane."""
        lead = values.ndim - 1
        axes = reversed(range(lead, lead + len(self.shape)))
        return values.reshape(*values.shape[:-1], *self.shape).transpose(*range(lead), *axes)

    def unstructured(self) -> Unstructured:
        """The same points, in our order, with quads or hexahedra between them."""
        return _grid(self.points, self.shape)


Geometry = Unstructured | Image


def geometry_of(points: np.ndarray, cells: np.ndarray | None = None, grid_shape: tuple[int, ...] | None = None) -> Geometry:
    """Points (point, dim) with their cells; without, the grid that they form; without that, single vertices."""
    if points.ndim != 2 or points.shape[1] not in (1, 2, 3) or not len(points):
        raise InputError("points", expected="(point, 1 … 3)", got=f"shape {points.shape}", fix="VTK has no other points.")
    if cells is not None and len(cells):
        return unstructured(points, [(cell_type(cells.shape[1], points.shape[1]), cells)])
    if grid_shape is not None:
        if np.prod(grid_shape) != len(points):
            raise InputError("grid_shape", expected=f"{len(points)} points", got=str(grid_shape), fix="Leave it out.")
        return _image(points, grid_shape) or _grid(points, grid_shape)
    return vertices(points)


def cell_type(corners: int, dim: int) -> int:
    """VTK's code of cells with so many corners; four of them are a quad in the plane and a tetrahedron in space."""
    known = _BY_CORNERS | (_SPACE if dim == 3 else _PLANE)
    if corners in known:
        return known[corners]
    if dim == 2 and corners > 4:
        return POLYGON
    raise InputError(
        "cells",
        expected=f"cells of {', '.join(map(str, sorted(known)))} corners in {dim}-D",
        got=f"{corners} corners",
        fix="Split them into simplices, or leave the cells out.",
    )


def unstructured(points: np.ndarray, blocks: list[tuple[int, np.ndarray]]) -> Unstructured:
    """From blocks of one type each, (type, (cell, corner)); their corners must be points."""
    for _, cells in blocks:
        if len(cells) and not (cells.min() >= 0 and cells.max() < len(points)):
            raise InputError(
                "cells",
                expected=f"corners from 0 to {len(points) - 1}, which are points",
                got=f"{cells.min()} … {cells.max()}",
                fix="Count the points of each mesh from 0.",
            )
    sizes = np.concatenate([[0], *(np.full(len(cells), cells.shape[1]) for _, cells in blocks)]).astype(np.int64)
    return Unstructured(
        points=_in_space(points),
        connectivity=np.concatenate([np.zeros(0), *(cells.ravel() for _, cells in blocks)], dtype=np.int64, casting="unsafe"),
        offsets=np.cumsum(sizes),
        types=np.concatenate([np.zeros(0), *(np.full(len(cells), code) for code, cells in blocks)]).astype(np.uint8),
    )


def vertices(points: np.ndarray) -> Unstructured:
    """Every point a cell of its own, since viewers draw cells and not points."""
    return unstructured(points, [(VERTEX, np.arange(len(points))[:, None])])


def _grid(points: np.ndarray, shape: tuple[int, ...]) -> Unstructured:
    """Lines, quads or hexahedra between the neighbors of a structured grid, whose last axis is fastest."""
    places = np.arange(len(points)).reshape([size for size in shape if size > 1] or [1])
    axes = places.ndim
    if places.size == 1 or axes > 3:
        return vertices(points)
    inner = [slice(None, -1), slice(1, None)]
    near, far = [(0,), (1,)], [(0, 0), (1, 0), (1, 1), (0, 1)]
    corners = near if axes == 1 else far if axes == 2 else [(*corner, up) for up, corner in product((0, 1), far)]
    cells = np.stack([places[tuple(inner[side] for side in corner)].ravel() for corner in corners], axis=-1)
    return unstructured(points, [(_GRID[axes], cells)])


def _image(points: np.ndarray, shape: tuple[int, ...]) -> Image | None:
    """The image with these points, where their grid is uniform and its axes are those of space."""
    dim = points.shape[1]
    if dim == 1 or len(shape) != dim or min(shape) < 2:
        return None
    first, last = points[0].astype(np.float64), points[-1].astype(np.float64)
    spacing = (last - first) / (np.array(shape) - 1)
    if (spacing <= 0).any():
        return None
    found = Image(shape, tuple(first.tolist()), tuple(spacing.tolist()))
    room = np.minimum(_ROUNDING * np.abs(points).max(axis=0), _BEND * spacing)
    return found if (np.abs(points - found.points) <= room).all() else None


def _in_space(points: np.ndarray) -> np.ndarray:
    """(point, 3), with zeros along the missing axes."""
    return np.pad(points.astype(np.float64), ((0, 0), (0, 3 - points.shape[1])))
