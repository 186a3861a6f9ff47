"""A user's own arrays as a source of trajectories."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal

import numpy as np

from calm_pde.config import suggestion
from calm_pde.data.readers.array_forms import clouds, given_box, numeric, parameter_table, per_sample
from calm_pde.data.readers.base import Reader, existing
from calm_pde.errors import FileError, InputError
from calm_pde.geometry import Box, periodic_axes
from calm_pde.records.description import Description, Field
from calm_pde.records.symmetry import Symmetry
from calm_pde.records.trajectory import SPLITS, Source, Split, Trajectory, generated_split

_NAMES = ("points", "fields", "times", "cells", "node_type", "features", "parameters", "split")


def array_source(
    points: Any,
    fields: Any,
    times: Any = None,
    *,
    name: str = "arrays",
    box: Any = None,
    periodic: bool | Sequence[bool] = False,
    names: Sequence[str] = (),
    units: Sequence[str] = (),
    cells: Any = None,
    node_type: Any = None,
    features: Any = None,
    feature_names: Sequence[str] = (),
    parameters: Any = None,
    parameter_names: Sequence[str] = (),
    conserved: Sequence[str] = (),
    symmetries: Sequence[Symmetry | dict[str, Any]] = (),
    grid_shape: Sequence[int] | None = None,
    split: Sequence[str] | None = None,
) -> Source:
    """Arrays or tensors in memory, or arrays mapped from disk, as a source.

    Args:
        points: (point, dim), in 1-D also (point,), or one such array per sample.
        box: the domain, a Box or its corners (lower, upper); by default the points' own extent, with one more spacing along a
            periodic axis of a grid.
        names: of the channels; by default u0, u1, ….
        features: (sample, point, feature) or one array per sample, for steady problems (one time).
        parameters: (sample, parameter), or {name: (sample,)}; empty for none.
        symmetries: what the equation leaves invariant, see `Symmetry`; training with train.augment moves windows by them.
        split: train, validation or test per sample; by default 80/10/10 by index.
    """
    fields = per_sample("fields", fields)
    count, (num_times, num_points, channels) = len(fields), _shape_of_first(fields)
    given = clouds(points, count, num_points)
    one = given if isinstance(given, np.ndarray) and given.ndim == 2 else None
    mesh = _mesh(given, one is None, count, cells=cells, node_type=node_type)
    dim = given[0].shape[-1] if one is None else one.shape[-1]
    if features is not None:
        features = per_sample("features", features, count)
    if parameters is not None:
        parameters, parameter_names = parameter_table(parameters, parameter_names, count)
    parts = _splits(split, count)
    described = Description(
        name=name,
        fields=_named("names", names, channels, "u", units),
        box=_box(box, given if one is None else [one], periodic, dim),
        times=_times(times, num_times),
        node_types=_codes(mesh.get("node_type")),
        features=() if features is None else _named("feature_names", feature_names, _width(features[0]), "f"),
        parameters=_parameter_names(parameters, parameter_names),
        conserved=tuple(conserved),
        symmetries=tuple(map(Symmetry.model_validate, symmetries)),
        grid_shape=None if grid_shape is None else tuple(grid_shape),
        provenance={"source": "arrays"},
        **({} if one is None else mesh),
    )
    own = {"fields": fields, "features": features, "parameters": parameters} | (mesh if one is None else {})
    return Source(described, _trajectories(own, parts), count)


def _box(box: Any, given: Any, periodic: bool | Sequence[bool], dim: int) -> Box:
    return _extent(given, periodic_axes(periodic, dim)) if box is None else given_box(box, periodic, dim)


def _parameter_names(parameters: np.ndarray | None, names: Sequence[str]) -> tuple[str, ...]:
    if parameters is None:
        return ()
    return tuple(field.name for field in _named("parameter_names", names, parameters.shape[-1], "p"))


def _shape_of_first(fields: Any) -> tuple[int, int, int]:
    first = numeric("fields", fields[0]) if len(fields) else None
    if first is None or first.ndim != 3:
        got = "none" if first is None else f"{first.ndim} axes per sample"
        raise InputError("fields", expected="(sample, time, point, channel)", got=got, fix="Add the missing axes.")
    return first.shape


def _mesh(points: Any, own: bool, count: int, **others: Any) -> dict[str, Any]:
    """What there is of the mesh: one array each where all samples share it, else one per sample."""
    there = {name: value for name, value in others.items() if value is not None}
    if own:
        return {"points": points} | {name: per_sample(name, value, count) for name, value in there.items()}
    return {"points": points} | {name: numeric(name, value) for name, value in there.items()}


def _trajectories(own: dict[str, Any], parts: Sequence[Split]) -> Iterator[Trajectory]:
    """Each sample with what is its own."""
    for index, part in enumerate(parts):
        arrays: dict[str, Any] = {name: numeric(name, value[index]) for name, value in own.items() if value is not None}
        yield Trajectory(split=part, **arrays)


class Arrays(Reader):
    """Your own arrays: an .npz file, or a folder of .npy files (read piece by piece), named points, fields, times, ….

    points (point, dim) or (sample, point, dim); fields (sample, time, point, channel); times (time,); optionally cells,
    node_type, features, parameters, split.
    """

    endings: ClassVar[tuple[str, ...]] = (".npz", ".npy")

    names: tuple[str, ...] = ()
    """Of the channels."""
    units: tuple[str, ...] = ()
    """Of the channels."""
    periodic: tuple[bool, ...] = (False,)
    """One flag for all axes, or one per axis."""
    lower: tuple[float, ...] = ()
    """Corner of the domain; by default the points' own extent."""
    upper: tuple[float, ...] = ()
    """The opposite corner."""

    def source(self) -> Source:
        found: dict[str, Any] = dict(_arrays(existing(self.path)))
        for name in ("points", "fields"):
            if name not in found:
                raise FileError(self.path, "is missing", part=f"array {name}", fix=suggestion(name, list(found)))
        periodic = self.periodic[0] if len(self.periodic) == 1 else self.periodic
        box = Box(self.lower, self.upper, periodic) if self.lower or self.upper else None
        split = found.pop("split", None)
        return array_source(
            found.pop("points"),
            found.pop("fields"),
            found.pop("times", None),
            name=self.path.stem,
            box=box,
            periodic=periodic,
            names=self.names,
            units=self.units,
            split=None if split is None else [str(part) for part in split],
            **found,
        )


class _OnDisk(Sequence[np.ndarray]):
    """An .npy file as a sequence of its entries, each read when asked for and forgotten after."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._length = len(self._mapped())

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        return self._mapped()[index].copy()  # a map that stayed open would count as memory page by page

    def _mapped(self) -> np.ndarray:
        return _loaded(self._path, self._path, "r")


def _arrays(path: Path) -> Iterator[tuple[str, np.ndarray | Sequence[np.ndarray]]]:
    if path.is_dir():
        for file in sorted(path.glob("*.npy")):
            large = file.stem in ("fields", "features")
            yield _known(path, file.stem), _OnDisk(file) if large else _loaded(file, file, None)
        return
    with path.open("rb") as raw:
        found = _loaded(path, raw, None)
        if isinstance(found, np.ndarray):
            raise FileError(path, "a single array", fix="Put points and fields into one .npz file, or a folder of .npy files.")
        for name in found.files:
            try:
                yield _known(path, name), found[name]
            except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
                raise FileError(path, f"cannot be read: {error}", part=f"array {name}") from error


def _known(path: Path, name: str) -> str:
    if name not in _NAMES:
        raise FileError(path, "is not known", part=f"array {name}", fix=suggestion(name, list(_NAMES)))
    return name


def _loaded(path: Path, file: Path | BinaryIO, mode: Literal["r"] | None) -> Any:
    try:
        return np.load(file, mmap_mode=mode, allow_pickle=False)
    except Exception as error:  # numpy and zipfile raise many kinds
        raise FileError(path, f"not a readable NumPy file ({error})", fix="Save it with np.savez.") from error


def _named(argument: str, names: Sequence[str], count: int, letter: str, units: Sequence[str] = ()) -> tuple[Field, ...]:
    names = tuple(names) or tuple(f"{letter}{place}" for place in range(count))
    units = tuple(units) or ("",) * count
    if len(names) != count or len(set(names)) != count or len(units) != count:
        raise InputError(
            argument, expected=f"{count} different names and units", got=f"{names}, {units}", fix="One per channel."
        )
    return tuple(Field(name=name, unit=unit) for name, unit in zip(names, units, strict=True))


def _times(times: Any, count: int) -> np.ndarray:
    if times is None:
        return np.arange(count, dtype=np.float64)
    found = numeric("times", times).astype(np.float64)
    if found.shape != (count,) or not np.isfinite(found).all() or (np.diff(found) <= 0).any():
        raise InputError(
            "times",
            expected=f"{count} finite, strictly increasing numbers, one per frame of the fields",
            got=f"{found.size} numbers",
            fix="Give one time per frame.",
        )
    return found


def _width(features: Any) -> int:
    found = numeric("features", features)
    if found.ndim != 2:
        got = f"{found.ndim} axes per sample"
        raise InputError("features", expected="(sample, point, feature)", got=got, fix="Add the missing axes.")
    return found.shape[-1]


def _codes(node_type: np.ndarray | Sequence[np.ndarray] | None) -> dict[int, str]:
    if node_type is None:
        return {}
    parts = [node_type] if isinstance(node_type, np.ndarray) else node_type
    found = np.unique(np.concatenate([np.unique(part) for part in parts]))
    return {int(code): f"type {code}" for code in found}


def _splits(split: Sequence[str] | None, count: int) -> list[Split]:
    if split is None:
        return [generated_split(index, count) for index in range(count)]
    wrong = [part for part in split if part not in SPLITS]
    if wrong or len(split) != count:
        raise InputError(
            "split",
            expected=f"{count} of {', '.join(SPLITS)}",
            got=repr(wrong[0]) if wrong else f"{len(split)} entries",
            fix="One per sample, or leave it out for 80/10/10.",
        )
    return list(split)  # pyright: ignore[reportReturnType]


def _extent(clouds: Sequence[np.ndarray] | np.ndarray, periodic: tuple[bool, ...]) -> Box:
    lower = np.min([np.min(cloud, axis=0) for cloud in clouds], axis=0)
    upper = np.max([np.max(cloud, axis=0) for cloud in clouds], axis=0)
    for axis in np.flatnonzero(periodic):
        places = np.unique(np.concatenate([np.unique(cloud[:, axis]) for cloud in clouds]))
        gaps = np.diff(places)
        if not len(gaps) or gaps.max() > gaps.min() * (1 + 1e-3):
            raise InputError(
                "box",
                expected=f"the length of one period, since axis {axis} is periodic and its points are not evenly spaced",
                got="no box",
                fix="Give box=Box(lower, upper, periodic), or --lower and --upper.",
            )
        upper[axis] += gaps.mean()
    return Box(tuple(lower.tolist()), tuple(upper.tolist()), periodic)
