"""The forms in which users give arrays, brought into one: what is unambiguous is taken, the rest is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from calm_pde.errors import InputError
from calm_pde.geometry import Box
from calm_pde.records.arrays import check_plain
from calm_pde.types import Tensor

_MOST_AXES = 3  # of space


def numeric(name: str, values: Any) -> np.ndarray:
    """An array of real numbers, from an array, a tensor or nested lists."""
    check_plain(name, values)
    try:
        found = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(name, expected="an array of numbers", got=str(error), fix="Convert it with np.asarray.") from error
    if found.dtype.kind not in "fiub":
        got = type(values).__name__ if found.dtype.kind == "O" else f"an array of {found.dtype}"
        raise InputError(name, expected="numbers", got=got, fix="Convert it to float32 or integers.")
    return found


def per_sample(name: str, values: Any, count: int | None = None) -> Any:
    """One array per sample: of a list each is converted; an array, mapped from disk or not, is left where it is."""
    if isinstance(values, list | tuple):
        values = [numeric(f"{name}[{place}]", value) for place, value in enumerate(values)]
    elif isinstance(values, Tensor):
        values = numeric(name, values)
    elif isinstance(values, Mapping | str | bytes) or not hasattr(values, "__getitem__") or getattr(values, "ndim", 1) == 0:
        got = type(values).__name__
        raise InputError(name, expected="an array, or a list with one per sample", got=got, fix="Stack the samples.")
    check_plain(name, values)
    if count is not None and len(values) != count:
        raise InputError(name, expected=f"one array per sample, {count}", got=str(len(values)), fix="Give one for each.")
    return values


def clouds(points: Any, count: int, num_points: int) -> np.ndarray | Sequence[np.ndarray]:
    """The cloud (point, dim) that all samples share, or one such cloud per sample; points (point,) lie on a line.

    Args:
        num_points: of the first sample's fields.
    """
    found = per_sample("points", points) if isinstance(points, list | tuple) else numeric("points", points)
    if isinstance(found, list) and {one.ndim for one in found} <= {0, 1}:
        found = _flat_list(found, count, num_points)
    if isinstance(found, np.ndarray) and found.ndim < 3:
        found = found[:, None] if found.ndim == 1 else found
        _check_cloud("points", found)
        return found
    if len(found) != count:
        raise InputError("points", expected=f"one array per sample, {count}", got=str(len(found)), fix="Or give one for all.")
    for place, cloud in enumerate(found):
        _check_cloud(f"points[{place}]", cloud)
        if cloud.shape[-1] != found[0].shape[-1]:
            got = f"{cloud.shape[-1]} in sample {place}"
            raise InputError("points", expected=f"{found[0].shape[-1]} axes in all samples", got=got, fix="Check the shapes.")
    return found


def _flat_list(rows: list[np.ndarray], count: int, num_points: int) -> np.ndarray | list[np.ndarray]:
    """A list of numbers, of points, or of the samples' points on a line; its lengths tell which."""
    sizes = {row.size for row in rows}
    if {row.ndim for row in rows} == {0}:
        return np.array(rows)
    as_points = len(rows) == num_points and len(sizes) == 1 and max(sizes) <= _MOST_AXES
    as_clouds = len(rows) == count and rows[0].size == num_points and all(row.ndim == 1 for row in rows)
    if as_points == as_clouds:
        raise InputError(
            "points",
            expected="an array (point, dim), or one such array per sample",
            got=f"a list of {len(rows)} rows that {'could be either' if as_points else 'is neither'}",
            fix="Give np.array(points) where all samples share them, else arrays (point, 1).",
        )
    return np.stack(rows) if as_points else [row[:, None] for row in rows]


def _check_cloud(name: str, cloud: np.ndarray) -> None:
    if cloud.ndim != 2 or not cloud.size or cloud.shape[-1] > _MOST_AXES:
        raise InputError(
            name,
            expected=f"(point, dim) with 1 to {_MOST_AXES} axes of space",
            got=f"shape {cloud.shape}",
            fix="One row per point; in 1-D (point,) will do.",
        )


def given_box(box: Any, periodic: bool | Sequence[bool], dim: int) -> Box:
    """A Box, or its corners (lower, upper), with the periodic axes behind them or in `periodic`."""
    if not isinstance(box, Box):
        parts = tuple(box) if isinstance(box, Iterable) and not isinstance(box, Mapping | str) else ()
        if len(parts) not in (2, 3):
            raise _unfit_box(dim, repr(box))
        lower, upper = ((corner,) if dim == 1 and np.ndim(corner) == 0 else corner for corner in parts[:2])
        try:
            box = Box(tuple(map(float, lower)), tuple(map(float, upper)), parts[2] if len(parts) == 3 else periodic)
        except InputError:
            raise
        except (TypeError, ValueError) as error:
            raise _unfit_box(dim, repr(box)) from error
    if box.dim != dim:
        raise _unfit_box(dim, f"{box.dim} axes")
    return box


def _unfit_box(dim: int, got: str) -> InputError:
    expected = f"(lower, upper) with {dim} numbers each, one per axis of the points"
    return InputError("box", expected=expected, got=got, fix="Give Box(lower, upper, periodic), or the two corners.")
