"""Where a solve leaves what was learned: outside the box, on far fewer points, or far from every point of the mesh."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import numpy as np
from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

from calm_pde.errors import InputError, OutsideBoxWarning, OutsideMeshWarning, TrainingRangeWarning, warn
from calm_pde.geometry import Box

Outside = Literal["warn", "nan", "answer"]

_RIM = 1e-6  # of an extent: what rounding may put outside the box
_FAR = 1.5
"""A query is far from the mesh if the nearest point is this many times farther than that point's own neighborhood reaches."""


def far_queries(points: np.ndarray, queries: np.ndarray, box: Box) -> np.ndarray:
    """(query,) whether d > 1.5·h: d the distance to the nearest point p, h that of p to its (3^dim − 1)-th neighbor.

    On a grid these are the neighbors along the axes and across, so that h is √dim spacings, and no place between points is
    farther than half of that. All of it is physical, and measured across periodic axes.
    """
    lower, extent = np.array(box.lower), np.array(box.upper) - np.array(box.lower)
    periodic = np.array(box.periodic)

    def inside(places: np.ndarray) -> np.ndarray:
        away = places - lower
        wrapped = away - np.floor(away / extent) * extent
        return np.where(periodic, np.where(wrapped < extent, wrapped, 0.0), away)

    here, count = inside(points), min(3**box.dim - 1, len(points) - 1)
    if count < 1:
        return np.zeros(len(queries), dtype=bool)
    tree = cKDTree(here, boxsize=np.where(periodic, extent, 0.0) if periodic.any() else None)
    away, nearest = tree.query(inside(queries))
    reach = tree.query(here[nearest], k=[count + 1])[0][:, 0]
    return away > _FAR * reach


def checked_outside(outside: str) -> None:
    if outside not in get_args(Outside):
        fix = "'nan' hides answers far from the mesh, 'answer' gives them without a word."
        raise InputError("outside", expected=f"one of {', '.join(get_args(Outside))}", got=repr(outside), fix=fix)


def far_from_mesh(points: np.ndarray, queries: np.ndarray, box: Box, outside: str) -> np.ndarray:
    """(query,) or (batch, query): which queries are far from the mesh; a warning says so where it is wanted."""
    if outside == "answer":
        return np.zeros(queries.shape[:-1], dtype=bool)
    if points.ndim == queries.ndim == 2:
        far = far_queries(points, queries, box)
    else:
        count = max(len(array) for array in (points, queries) if array.ndim == 3)
        pairs = zip(*(array if array.ndim == 3 else [array] * count for array in (points, queries)), strict=True)
        far = np.stack([far_queries(cloud, asked, box) for cloud, asked in pairs])
    if outside == "warn" and far.any():
        warn(
            f"queries: {int(far.sum()):,} of {far.size:,} lie far from every point of the mesh, in a hole or outside, where "
            "answers mean nothing. In solve, outside='nan' hides them, and outside='answer' keeps quiet.",
            OutsideMeshWarning,
        )
    return far


@contextmanager
def said_already() -> Iterator[None]:
    """Of places outside the box a surrogate tells in the caller's own coordinates, and the model not once more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideBoxWarning)
        yield


def warn_outside(name: str, places: np.ndarray, unit: np.ndarray, box: Box) -> None:
    """Say each time how many places lie outside the box of the training on an axis that is not periodic."""
    closed = ~np.array(box.periodic)
    outside = ((unit < -_RIM) | (unit > 1 + _RIM))[..., closed].any(axis=-1)
    if outside.any():
        rows = places.reshape(-1, places.shape[-1])
        reach = f"{_place(rows.min(axis=0))} to {_place(rows.max(axis=0))}"
        warn(
            f"{name}: {int(outside.sum()):,} of {outside.size:,} lie outside the box of the training; they reach from {reach}, "
            f"the box from {corners(box)}. Give physical coordinates in the unit of the training data: the surrogate "
            "extrapolates there.",
            OutsideBoxWarning,
        )


def warn_few(count: int, fewest: int) -> None:
    """Say that a mesh is much coarser than all of the training."""
    if 2 * count < fewest:
        warn(
            f"points: {count:,}, where the surrogate was trained on at least {fewest:,}; it sees less of a state on so few. "
            "Give the state on a finer mesh; for answers at few points name them as queries.",
            TrainingRangeWarning,
        )


def corners(box: Box) -> str:
    """Where it lies, in words."""
    return f"{_place(box.lower)} to {_place(box.upper)}"


def _place(corner: Any) -> str:
    return f"({', '.join(f'{float(value):g}' for value in corner)})"
