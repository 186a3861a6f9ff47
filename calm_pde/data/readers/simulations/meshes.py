"""From the meshes of files, always in space, to points and cells that a model sees: planes found, regions cut, cells kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from calm_pde.errors import InputError

_FLAT = 1e-6  # of the extent of a mesh: what rounding may do to a constant coordinate
_LINES, _SURFACES = (3, 4, 21), (5, 6, 7, 8, 9, 22, 23, 28)  # VTK's codes
_TETRAHEDRON, _PIXEL, _CURVED_TRIANGLE = 10, 8, 22
_ROUND = {8: (0, 1, 3, 2), 23: (0, 4, 1, 5, 2, 6, 3, 7), 28: (0, 4, 1, 5, 2, 6, 3, 7)}  # corners in their order around a cell
_PARTS = ((0, 3, 5), (3, 1, 4), (5, 4, 2), (3, 4, 5))  # of a triangle with a point on every side


@dataclass(frozen=True)
class Block:
    """A mesh as a file has it: points (point, 3), cells by VTK's types, with the corners of all in one row."""

    name: str
    points: np.ndarray
    connectivity: np.ndarray
    offsets: np.ndarray
    types: np.ndarray

    def problem(self) -> str:
        """What makes no sense in it, in words; empty where all does."""
        corners, count = self.connectivity, len(self.points)
        if not np.isfinite(self.points).all():
            return f"{(~np.isfinite(self.points)).any(axis=1).sum()} points are not finite"
        fits = len(self.offsets) == len(self.types) + 1 and self.offsets[0] == 0 and self.offsets[-1] == len(corners)
        if not fits or (np.diff(self.offsets) < 0).any():
            return "its cells do not fit together"
        if len(corners) and not (corners.min() >= 0 and corners.max() < count):
            return f"cells name points that do not exist, {corners.min()} … {corners.max()} of {count}"
        return ""

    @property
    def dims(self) -> np.ndarray:
        """Of each cell."""
        known = [np.isin(self.types, kinds) for kinds in ((0, 1, 2), _LINES, _SURFACES)]
        return np.select(known, (0, 1, 2), 3)

    @property
    def dim(self) -> int:
        """Of its cells, the highest one."""
        return int(self.dims.max(initial=0))

    @property
    def top(self) -> np.ndarray:
        """Which cells have it; others are sides of them, or points."""
        return self.dims == self.dim

    @property
    def centers(self) -> np.ndarray:
        """(cell, 3): the mean of each cell's corners."""
        sizes = np.diff(self.offsets)
        total = np.add.reduceat(np.vstack([self.points[self.connectivity], np.zeros(3)]), self.offsets[:-1], axis=0)
        return np.where(sizes[:, None] > 0, total / np.maximum(sizes, 1)[:, None], 0.0)

    def sized(self) -> Iterator[tuple[int, np.ndarray]]:
        """Its cells of the highest dimension as (type, (cell, corner)), by type and number of corners."""
        sizes, top = np.diff(self.offsets), self.top
        for kind, size in np.unique(np.stack([self.types[top].astype(np.int64), sizes[top]], axis=-1), axis=0):
            starts = self.offsets[:-1][(self.types == kind) & (sizes == size)]
            yield int(kind), self.connectivity[starts[:, None] + np.arange(size)]


@dataclass(frozen=True)
class Places:
    """Where values live, in space: what all blocks have in a row, and which of them are left.

    Args:
        points: (point, 3) of those that are left.
        kept: (point,), their places in the row.
        twins: (2, pair), places in the row that are one point in several blocks; the first of each pair is left.
        code: (point,) node types by patch, where patches of the boundary were asked for.
    """

    points: np.ndarray
    kept: np.ndarray
    twins: np.ndarray
    code: np.ndarray | None = None
    codes: dict[int, str] | None = None


@dataclass(frozen=True)
class Space:
    """A mesh as a model sees it: which of the values in a row belong to its points (point, dim), and its cells."""

    points: np.ndarray
    cells: np.ndarray | None
    kept: np.ndarray
    twins: np.ndarray
    axes: tuple[int, ...]
    """Of space, those that are left."""
    layers: np.ndarray | None = None
    """(2, point), places in the row: of a mesh one cell thick, where only the first of both is left."""
    code: np.ndarray | None = None
    codes: dict[int, str] | None = None
    said: tuple[str, ...] = ()


def chosen_blocks(blocks: Sequence[Block]) -> list[int]:
    """Which blocks to read: those with cells of the highest dimension that there is, and not their boundaries."""
    most = max(block.dim for block in blocks)
    return [place for place, block in enumerate(blocks) if block.dim == most]


def space_of(blocks: Sequence[Block], at_cells: bool, region: Sequence[float] = (), patches: Sequence[Block] = ()) -> Space:
    """What of a mesh a model sees.

    Args:
        at_cells: values are at the centers of cells, else at points.
        region: xmin, xmax, ymin, ymax, …; empty for all.
        patches: of the boundary, with values at the centers of their faces.
    """
    places = _cell_places(blocks, patches) if at_cells else _point_places(blocks)
    axes, said = _axes(places.points), []
    kept, points, layers = places.kept, places.points, None
    found = None if at_cells or len(axes) < 3 or blocks[0].dim < 3 else _layers(points)
    if found is not None:
        axis, low, high = found
        layers, points, kept = np.stack([kept[low], kept[high]]), points[low], kept[low]
        axes = tuple(other for other in range(3) if other != axis)
        said.append(f"The meshes are one cell thick along {'xyz'[axis]} and become 2-D: one of their two layers is kept.")
    elif len(axes) < 3:
        said.append(f"{' and '.join('xyz'[axis] for axis in range(3) if axis not in axes)} is constant: {len(axes)}-D.")
    cells = None if at_cells else _cells(blocks, places, kept, points, axes, said)
    inside = _inside(points[:, axes], region)
    if not inside.all():
        cells = None if cells is None else _renumbered(cells, inside)
        layers = None if layers is None else layers[:, inside]
    code = None if places.code is None else places.code[inside]
    cells = None if cells is None or not len(cells) else cells.astype(np.int32)
    plane = np.ascontiguousarray(points[inside][:, axes])
    return Space(plane, cells, kept[inside], places.twins, axes, layers, code, places.codes, tuple(said))


def _cell_places(blocks: Sequence[Block], patches: Sequence[Block]) -> Places:
    top = np.concatenate([block.top for block in blocks])
    every = np.concatenate([block.centers for block in blocks])
    if not patches:
        return Places(every[top], np.flatnonzero(top), np.zeros((2, 0), dtype=np.int64))
    inner = every[top]
    flat = [axis for axis in range(3) if axis not in _axes(inner)]
    ends = [(block.points[:, axis].min(), block.points[:, axis].max()) for block in blocks for axis in flat]
    names = list(dict.fromkeys(patch.name for patch in patches))
    codes, parts, keep, code = {0: "inside"}, [every], [top], [np.zeros(len(every), dtype=np.int32)]
    for patch in patches:
        faces = patch.centers
        lids = [np.abs(faces[:, [axis]] - np.array([ends[place]])).min(axis=1) for place, axis in enumerate(flat)]
        side = np.array([distance < _FLAT * np.ptp(inner, axis=0).max() for distance in lids]).reshape(len(flat), len(faces))
        keep.append(np.logical_not(side.any(axis=0)))  # front and back of a plane are no boundary of it
        parts.append(faces)
        code.append(np.full(len(faces), 1 + names.index(patch.name), dtype=np.int32))
        if keep[-1].any():
            codes[1 + names.index(patch.name)] = patch.name
    left = np.concatenate(keep)
    points, kept = np.concatenate(parts)[left], np.flatnonzero(left)
    return Places(points, kept, np.zeros((2, 0), dtype=np.int64), np.concatenate(code)[left], codes)


def _point_places(blocks: Sequence[Block]) -> Places:
    """All points; those that lie in several blocks at one place are one."""
    points = np.concatenate([block.points for block in blocks])
    if len(blocks) == 1:
        return Places(points, np.arange(len(points)), np.zeros((2, 0), dtype=np.int64))
    owner = np.repeat(np.arange(len(blocks)), [len(block.points) for block in blocks])
    _, first, number = np.unique(points + 0.0, axis=0, return_index=True, return_inverse=True)
    mates = first[number.reshape(-1)]
    again = (mates != np.arange(len(points))) & (owner[mates] != owner)
    twins = np.stack([mates[again], np.flatnonzero(again)])
    return Places(points[~again], np.flatnonzero(~again), twins)


def _axes(points: np.ndarray) -> tuple[int, ...]:
    """Along which the points differ; x where they all coincide."""
    extent = np.ptp(points, axis=0)
    return tuple(np.flatnonzero(extent > _FLAT * extent.max()).tolist()) or (0,)


def _layers(points: np.ndarray) -> tuple[int, np.ndarray, np.ndarray] | None:
    """The axis along which there are two layers of points, each below its mate; z before y before x."""
    room = _FLAT * np.ptp(points, axis=0).max()
    for axis in (2, 1, 0):
        height = points[:, axis]
        low, high = np.flatnonzero(height < height.min() + room), np.flatnonzero(height > height.max() - room)
        if len(low) + len(high) != len(points) or len(low) != len(high):
            continue
        others = [other for other in range(3) if other != axis]
        distance, mate = KDTree(points[high][:, others]).query(points[low][:, others])
        if distance.max() <= room and len(np.unique(mate)) == len(high):
            return axis, low, high[mate]
    return None


def _cells(
    blocks: Sequence[Block], places: Places, kept: np.ndarray, points: np.ndarray, axes: tuple[int, ...], said: list[str]
) -> np.ndarray | None:
    """Simplices between the points that are left; None where there are none, or cells that are neither flat nor simplices."""
    total = sum(len(block.points) for block in blocks)
    number = np.full(total, -1)
    number[kept] = np.arange(len(kept))
    if places.twins.size:
        number[places.twins[1]] = number[places.twins[0]]
    found, start = [], 0
    for block in blocks:
        for kind, corners in block.sized():
            renumbered = number[corners + start]
            found += _simplices(kind, renumbered, len(axes), points[:, axes])
        start += len(block.points)
    known = [part for part in found if part is not None]
    if len(known) < len(found) or len({part.shape[1] for part in known}) > 1:
        said.append("Cells are not kept: they are neither in a plane nor all triangles or all tetrahedra.")
        return None
    return np.concatenate(known) if known else None


def _simplices(kind: int, corners: np.ndarray, dim: int, points: np.ndarray) -> list[np.ndarray | None]:
    """Cells of one type as lines, triangles or tetrahedra; [None] where they can't be, [] where they are points."""
    if kind in (0, 1, 2):
        return []
    if kind in _LINES:
        return (
            [np.concatenate([corners[:, place : place + 2] for place in range(corners.shape[1] - 1)])] if kind != 21 else [None]
        )
    if kind == 5:
        return [corners]
    if kind in _SURFACES and kind != 6 and (dim == 2 or corners.shape[1] == 3):
        if kind == _CURVED_TRIANGLE:
            return [corners[:, part] for part in map(list, _PARTS)]
        return _fan(corners[:, _ROUND.get(kind, range(corners.shape[1]))])
    if kind == _TETRAHEDRON and dim == 3:
        return [corners]
    if dim == 2 and kind not in _SURFACES:
        return _lower_faces(corners, points)
    return [None]


def _fan(around: np.ndarray) -> list[np.ndarray | None]:
    """Triangles of convex polygons."""
    return [around[:, [0, place, place + 1]] for place in range(1, around.shape[1] - 1)]


def _lower_faces(corners: np.ndarray, points: np.ndarray) -> list[np.ndarray | None]:
    """Triangles of the side of each cell that lies in the layer that is kept; corners of the other one are −1."""
    sizes = (corners >= 0).sum(axis=1)
    found: list[np.ndarray | None] = []
    for size in np.unique(sizes[sizes >= 3]):
        rows = corners[sizes == size]
        lower = rows[rows >= 0].reshape(-1, size)
        away = points[lower] - points[lower].mean(axis=1, keepdims=True)
        turn = np.argsort(np.arctan2(away[..., 1], away[..., 0]), axis=1)
        found += _fan(np.take_along_axis(lower, turn, axis=1))
    return found


def _inside(points: np.ndarray, region: Sequence[float]) -> np.ndarray:
    """Which points lie in the region."""
    if not region:
        return np.ones(len(points), dtype=bool)
    dim = points.shape[1]
    bounds = np.array(region, dtype=np.float64)
    if len(bounds) != 2 * dim or (bounds[::2] >= bounds[1::2]).any():
        expected = f"{2 * dim} numbers, the lower and the upper bound along each of {dim} axes"
        raise InputError(
            "region", expected=expected, got=" ".join(f"{bound:g}" for bound in bounds), fix="Planes are 2-D here."
        )
    found = np.all((points >= bounds[::2]) & (points <= bounds[1::2]), axis=1)
    if not found.any():
        low, high = points.min(axis=0), points.max(axis=0)
        got = "none; they lie in " + " × ".join(f"[{a:g}, {b:g}]" for a, b in zip(low, high, strict=True))
        raise InputError("region", expected="some points in it", got=got, fix="Give bounds in the units of the files.")
    return found


def _renumbered(cells: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """The cells with all corners inside, by the new numbers of their corners."""
    number = np.cumsum(inside) - 1
    return number[cells[inside[cells].all(axis=1)]]
