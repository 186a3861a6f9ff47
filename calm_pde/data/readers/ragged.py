"""Samples of different size as NumPy files: a folder with an .npz file per sample, or one .npz file with offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from calm_pde.config import suggestion
from calm_pde.errors import FileError

_MESH = ("points", "cells", "node_type")
_PER_POINT = ("points", "node_type", "features")
_ARRAYS = (*_PER_POINT, "fields", "times", "cells", "feature_names", "parameters", "split", "signal_times")
_NAMED = ("parameters", "signals", "signal_times")  # as parameters/power
_OFFSETS = ("point_offsets", "cell_offsets", "signal_offsets")
_PICKLE = b"\x80"  # how a pickle begins
_INSTEAD = (
    "An array of objects would have to be unpickled, which can run any code. Save one file per sample, "
    "np.savez('case/a.npz', points=…, fields=…, times=…), or one for all with offsets: np.savez('all.npz', "
    "points=np.concatenate(points), fields=np.concatenate(fields, axis=1), times=…, "
    "point_offsets=np.cumsum([0] + [len(p) for p in points]))."
)


def loading_problem(path: Path, error: Exception, part: str = "") -> FileError:
    """What to say where NumPy could not load an array."""
    if "Object arrays" in str(error) or ("pickle" in str(error) and path.read_bytes()[:1] == _PICKLE):
        return FileError(path, "holds objects instead of numbers", part=part, fix=_INSTEAD)
    problem = "cannot be read" if part else "not a readable NumPy file"
    return FileError(path, f"{problem} ({str(error).strip() or type(error).__name__})", part=part, fix="Save it with np.savez.")


class Samples(Sequence[np.ndarray]):
    """One array of every sample, each read when asked for and forgotten after."""

    def __init__(self, count: int, read: Callable[[int], np.ndarray]) -> None:
        self._count, self._read = count, read

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._read(index % self._count)


def folder_arrays(folder: Path, files: Sequence[Path]) -> Iterator[tuple[str, Any]]:
    """The arrays of a folder with a file per sample, as those of all samples: meshes in memory, fields read one by one."""
    first = sorted(_names(files[0]))
    for name in ("points", "fields", "times"):
        if name not in first:
            raise FileError(files[0], "is missing", part=f"array {name}", fix=suggestion(name, first))
    for path in files[1:]:
        if other := sorted(set(_names(path)) ^ set(first)):
            there, missing = (path, files[0]) if other[0] in _names(path) else (files[0], path)
            problem = f"is not there, and {there.name} has it"
            raise FileError(missing, problem, part=f"array {other[0]}", fix="All samples need the same arrays.")
    mesh = {name: [_array(path, name) for path in files] for name in _MESH if name in first}
    shared = all(np.array_equal(rows[0], row) for rows in mesh.values() for row in rows)
    yield from ((name, rows[0] if shared else _clouds(name, rows)) for name, rows in mesh.items())
    sizes = [len(row) for row in mesh["points"]]
    for name in first:
        if name in ("fields", "features"):
            yield name, Samples(len(files), lambda index, name=name: _of_points(files[index], name, sizes[index]))
        elif name == "feature_names":
            yield name, _array(files[0], name)
        elif name == "times":
            yield name, _common(files, name)
        elif name == "signal_times":
            knots = [_array(path, name) for path in files]
            yield from ((f"signal_times/{one[8:]}", knots) for one in first if one.startswith("signals/"))
        elif name not in _MESH:
            rows = [_array(path, name) for path in files]
            single = name == "split" or name.startswith("parameters")
            yield name, _stacked(files, name, rows) if single else rows


def offset_arrays(path: Path, found: dict[str, np.ndarray]) -> Iterator[tuple[str, Any]]:
    """The arrays of one file with all samples one after the other, cut at the offsets."""
    starts = {name: _offsets(path, found, name) for name in _OFFSETS if name in found}
    count = len(starts["point_offsets"]) - 1
    for name, values in found.items():
        _check_name(path, name, (*_ARRAYS, *_OFFSETS))
        if name in _OFFSETS:
            continue
        if name in _PER_POINT:
            yield name, _clouds(name, _cut(path, name, values, starts["point_offsets"]))
        elif name == "fields":
            if values.ndim != 3:
                problem = f"expected (time, points of all samples, channel), got shape {values.shape}"
                raise FileError(path, problem, part="array fields", fix=_INSTEAD)
            parts = _cut(path, name, np.moveaxis(values, 1, 0), starts["point_offsets"])
            yield name, [np.moveaxis(part, 0, 1) for part in parts]
        elif name == "cells":
            if "cell_offsets" not in starts:
                fix = "Give cell_offsets (sample + 1,); corners are counted within each mesh."
                raise FileError(path, "is missing beside cells", part="array cell_offsets", fix=fix)
            yield name, _cut(path, name, values, starts["cell_offsets"])
        elif "signal_offsets" in starts and name.startswith("signal"):
            parts = _cut(path, name, values, starts["signal_offsets"])
            plain = name == "signal_times"
            yield from ((f"signal_times/{one[8:]}", parts) for one in found if plain and one.startswith("signals/"))
            if not plain:
                yield name, parts
        else:
            if name.startswith("parameters") and len(values) != count:
                raise FileError(path, f"has {len(values)} rows for {count} samples", part=f"array {name}")
            yield name, values


def _clouds(name: str, rows: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Points on a line as (point, 1)."""
    return [row[:, None] if name == "points" and row.ndim == 1 else row for row in rows]


def _offsets(path: Path, found: dict[str, np.ndarray], name: str) -> np.ndarray:
    starts = found[name]
    if starts.ndim != 1 or len(starts) < 2 or starts.dtype.kind not in "iu" or starts[0] != 0 or (np.diff(starts) < 0).any():
        problem = "expected whole numbers (sample + 1,) from 0 that do not fall"
        raise FileError(path, problem, part=f"array {name}", fix="Give np.cumsum([0] + [len(p) for p in points]).")
    return starts.astype(np.int64)


def _cut(path: Path, name: str, values: np.ndarray, starts: np.ndarray) -> list[np.ndarray]:
    if len(values) != starts[-1]:
        problem = f"has {len(values)} rows, and the offsets end at {starts[-1]}"
        raise FileError(path, problem, part=f"array {name}", fix="Put the samples one after the other, without padding.")
    return [values[low:high] for low, high in pairwise(starts)]


def _common(files: Sequence[Path], name: str) -> np.ndarray:
    """An array that must be the same in all files."""
    first = _array(files[0], name)
    for path in files[1:]:
        here = _array(path, name)
        if here.shape != first.shape or not np.allclose(here, first, rtol=0, atol=1e-9 * np.ptp(first)):
            problem = f"is another one than in {files[0].name}"
            raise FileError(path, problem, part=f"array {name}", fix="All samples need the same times; interpolate.")
    return first


def _stacked(files: Sequence[Path], name: str, rows: Sequence[np.ndarray]) -> np.ndarray:
    """(sample, …) of one number or a short row each."""
    for path, row in zip(files, rows, strict=True):
        if row.shape != rows[0].shape or row.ndim > 1 or ("/" in name and row.size != 1):
            problem = f"expected one number, got shape {row.shape}" if "/" in name else f"has shape {row.shape}"
            raise FileError(path, problem, part=f"array {name}", fix="Give a number per sample.")
    return np.stack([row.reshape(()) if "/" in name else row for row in rows])


def _of_points(path: Path, name: str, count: int) -> np.ndarray:
    """Fields (time, point, channel) or features (point, feature), with as many points as the sample has."""
    found, axes = _array(path, name), ("time", "point", "channel") if name == "fields" else ("point", "feature")
    if found.ndim != len(axes) or found.shape[-2] != count:
        problem = f"expected ({', '.join(axes)}) with {count} points, got shape {found.shape}"
        raise FileError(path, problem, part=f"array {name}", fix="Give a value for each of the points of its sample.")
    return found


def _names(path: Path) -> list[str]:
    with _opened(path) as found:
        for name in found.files:
            _check_name(path, name, _ARRAYS)
        return list(found.files)


def _array(path: Path, name: str) -> np.ndarray:
    with _opened(path) as found:
        try:
            return found[name]
        except Exception as error:  # numpy and zipfile raise many kinds
            raise loading_problem(path, error, f"array {name}") from None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    with path.open("rb") as raw:
        try:
            found = np.load(raw, allow_pickle=False)
        except Exception as error:
            raise loading_problem(path, error) from None
        if isinstance(found, np.ndarray):
            raise FileError(path, "is a single array", fix="Save points, fields and times with np.savez.")
        yield found


def _check_name(path: Path, name: str, known: Sequence[str]) -> None:
    kind, slash, rest = name.partition("/")
    if name not in known and not (slash and rest and kind in _NAMED):
        raise FileError(path, "is not known", part=f"array {name}", fix=suggestion(name, list(known)))
