"""A user's own arrays as a source of trajectories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal

import numpy as np

from calm_pde.config import suggestion
from calm_pde.data.readers.array_forms import clouds, given_box, numeric, per_sample
from calm_pde.data.readers.base import Reader, existing, in_order
from calm_pde.data.readers.condition_forms import check_names, given_prescribed, parameter_table, signal_table, units_by_name
from calm_pde.data.readers.ragged import folder_arrays, loading_problem, offset_arrays
from calm_pde.errors import CalmError, FileError, InputError
from calm_pde.geometry import Box, periodic_axes
from calm_pde.records.description import Description, Field
from calm_pde.records.symmetry import Symmetry
from calm_pde.records.trajectory import SPLITS, Source, Split, Trajectory, generated_split

_NAMES = ("points", "fields", "times", "cells", "node_type", "features", "feature_names", "parameters", "split")
_WANTED = "There have to be points (point, dim) and fields (sample, time, point, channel)."
_NAMED = ("parameters", "signals", "signal_times")  # each array of theirs has a name of its own: parameters/conductivity


def array_source(
    points: Any,
    fields: Any,
    times: Any = None,
    *,
    name: str = "arrays",
    box: Any = None,
    periodic: bool | Sequence[bool] = False,
    names: Sequence[str] = (),
    units: Sequence[str] | Mapping[str, str] = (),
    cells: Any = None,
    node_type: Any = None,
    node_types: Mapping[int, str] | None = None,
    features: Any = None,
    feature_names: Sequence[str] = (),
    parameters: Any = None,
    parameter_names: Sequence[str] = (),
    signals: Any = None,
    prescribed: Any = None,
    conserved: Sequence[str] = (),
    symmetries: Sequence[Symmetry | dict[str, Any]] = (),
    grid_shape: Sequence[int] | None = None,
    split: Sequence[str] | None = None,
) -> Source:
    """Arrays or tensors in memory, or arrays mapped from disk, as a source.

    Args:
        points: (point, dim), in 1-D also (point,), or one such array per sample.
        box: a Box or its corners (lower, upper); by default the points' extent, and one spacing more along periodic axes.
        names: of the channels; by default u0, u1, ….
        units: of the channels; or by name, {name: unit}, of fields, features, parameters and signals.
        node_types: names of the codes in `node_type`.
        features: given at each point at all times alike, (sample, point, feature) or one array per sample, or for all of them.
        parameters: (sample, parameter), or {name: (sample,)}; empty for none.
        signals: what is known at all times, {name: values} at the frames, (sample, time), or {name: (times, values)} with knots
            of its own, (knot,) or one array per sample; linear between. Where all samples share one, (time,) will do.
        prescribed: {field: node types}, by code or name: where it is known at all times, and not predicted; [] for everywhere.
        symmetries: what the equation leaves invariant, see `Symmetry`; training with train.augment moves windows by them.
        split: train, validation or test per sample; by default 80/10/10 by index.
    """
    fields = per_sample("fields", fields)
    count, (num_times, num_points, channels) = len(fields), _shape_of_first(fields)
    given = clouds(points, count, num_points)
    one = given if isinstance(given, np.ndarray) and given.ndim == 2 else None
    mesh = _mesh(given, one is None, count, cells=cells, node_type=node_type)
    parts, frames = _splits(split, count), _times(times, num_times)
    told, conditions = _given_conditions(features, feature_names, parameters, parameter_names, signals, frames, (count, one))
    described = Description(
        name=name,
        fields=_named("names", names, channels, "u", () if isinstance(units, Mapping) else units),
        box=_box(box, given if one is None else [one], periodic),
        times=frames,
        node_types=_codes(mesh.get("node_type"), node_types),
        conserved=tuple(conserved),
        symmetries=tuple(map(Symmetry.model_validate, symmetries)),
        grid_shape=None if grid_shape is None else tuple(grid_shape),
        **told | ({} if one is None else mesh),
    )
    own = {"fields": fields, **conditions, **(mesh if one is None else {})}
    return Source(with_names(described, units, prescribed), _trajectories(own, parts), count)


def _given_conditions(
    features: Any,
    feature_names: Sequence[str],
    parameters: Any,
    parameter_names: Sequence[str],
    signals: Any,
    times: np.ndarray,
    samples: tuple[int, np.ndarray | None],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a description says of features, parameters and signals, and their arrays, one per sample.

    Args:
        samples: how many, and the points that all of them share.
    """
    count, points = samples
    told: dict[str, Any] = {"provenance": {"source": "arrays"}}
    found: dict[str, Any] = {}
    if features is not None:
        found["features"] = _features(features, count, None if points is None else len(points))
        told["features"] = _named("feature_names", feature_names, _width(found["features"][0]), "f")
    if parameters is not None:
        table, names = parameter_table(parameters, parameter_names, count)
        found["parameters"], told["parameters"] = table, _parameter_names(table, names)
    lines = None if signals is None else signal_table(signals, times, count)
    if lines is not None:
        (found["signal_times"], found["signals"]), told["signals"] = lines
    return told, found


def with_names(described: Description, units: Sequence[str] | Mapping[str, str], prescribed: Any) -> Description:
    """With units by name, and with what is prescribed."""
    check_names(described)
    features, conditions = (field.name for field in described.features), (*described.parameters, *described.signals)
    by_name = units_by_name(units, (*described.field_names, *features, *conditions))

    def told(fields: tuple[Field, ...]) -> tuple[Field, ...]:
        return tuple(Field(name=field.name, unit=by_name.get(field.name, field.unit)) for field in fields)

    return replace(
        described,
        fields=told(described.fields),
        features=told(described.features),
        units={name: by_name[name] for name in conditions if by_name.get(name)},
        prescribed=given_prescribed(prescribed or {}, described.fields, described.node_types),
    )


def _features(features: Any, count: int, num_points: int | None) -> Any:
    """One array (point, feature) per sample; a single one is every sample's, where they share their points."""
    if num_points is not None and np.ndim(features) == 2:
        one = numeric("features", features)
        if len(one) == num_points:
            return np.broadcast_to(one, (count, *one.shape))
    return per_sample("features", features, count)


def _box(box: Any, given: Any, periodic: bool | Sequence[bool]) -> Box:
    dim = given[0].shape[-1]
    return _extent(given, periodic_axes(periodic, dim)) if box is None else given_box(box, periodic, dim)


def _parameter_names(parameters: np.ndarray | None, names: Sequence[str]) -> tuple[str, ...]:
    if parameters is None:
        return ()
    return tuple(field.name for field in _named("parameter_names", names, parameters.shape[-1], "p"))


def _shape_of_first(fields: Any) -> tuple[int, int, int]:
    first = numeric("fields", fields[0]) if len(fields) else None
    if first is None or first.ndim != 3:
        got = "none" if first is None else f"shape {(len(fields), *first.shape)}"
        fix = "A single field gets its axis by fields[..., None], one sample by fields[None]; the axes of a grid become one."
        raise InputError("fields", expected="(sample, time, point, channel)", got=got, fix=fix)
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
    """Your own arrays: an .npz file, a folder of .npy files, or of an .npz file per sample; named points, fields, times, ….

    points (point, dim) or (sample, point, dim); fields (sample, time, point, channel); times (time,); optionally cells,
    node_type, features, feature_names, parameters, split. Parameters and signals by name: parameters/NAME (sample,) and
    signals/NAME (sample, time), the latter with signal_times/NAME (knot,) where its knots are not the times; names with a
    slash are names of arrays in an .npz file, and files in folders.
    """

    endings: ClassVar[tuple[str, ...]] = (".npz", ".npy")

    names: tuple[str, ...] = ()
    """Of the channels."""
    units: tuple[str, ...] = ()
    """Of the channels."""
    condition_units: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    """Of parameters, signals and features by name."""
    node_types: dict[int, str] = {}  # noqa: RUF012
    """Names of the codes in node_type."""
    prescribed: tuple[str, ...] = ()
    """Fields known in advance at all times: `temperature` everywhere, `temperature=wall,inflow` at points of these types."""
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
                raise FileError(self.path, "is missing", part=f"array {name}", fix=_WANTED)
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
            units=self._units() if self.condition_units else self.units,
            node_types=self.node_types,
            prescribed=given_pairs(self.prescribed),
            split=None if split is None else [str(part) for part in split],
            **_conditions(self.path, found),
            **found,
        )

    def _units(self) -> dict[str, str]:
        """Of fields and conditions by name."""
        names = self.names or tuple(f"u{place}" for place in range(len(self.units)))
        return dict(zip(names, self.units, strict=False)) | self.condition_units


def given_pairs(words: Sequence[str]) -> dict[str, list[str]]:
    """What is prescribed, as the command line says it: `T`, or `T=wall,inlet`."""
    return {field: types.split(",") if types else [] for field, _, types in (word.partition("=") for word in words)}


def _conditions(path: Path, found: dict[str, Any]) -> dict[str, Any]:
    """What has names of its own, taken out of the arrays that were found."""
    named: dict[str, dict[str, Any]] = {kind: {} for kind in _NAMED}
    for key in [key for key in found if "/" in key]:
        kind, _, name = key.partition("/")
        named[kind][name] = found.pop(key)
    knots, signals = named["signal_times"], named["signals"]
    for name in knots:
        if name not in signals:
            raise FileError(
                path, "belongs to no signal", part=f"array signal_times/{name}", fix=suggestion(name, list(signals))
            )
    if named["parameters"] and "parameters" in found:
        raise FileError(path, "stands beside parameters with names", part="array parameters", fix="Leave one of them out.")
    told: dict[str, Any] = {}
    if signals:
        told["signals"] = {name: (knots[name], line) if name in knots else line for name, line in signals.items()}
    if named["parameters"]:
        told["parameters"] = named["parameters"]
    if "feature_names" in found:
        told["feature_names"] = [str(name) for name in found.pop("feature_names")]
    return told


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
    if path.is_dir() and (samples := in_order(path.glob("*.npz"))):
        yield from folder_arrays(path, samples)
        return
    if path.is_dir():
        for file in sorted([*path.glob("*.npy"), *(file for kind in _NAMED for file in path.glob(f"{kind}/*.npy"))]):
            name = file.relative_to(path).with_suffix("").as_posix()
            yield _known(path, name), _OnDisk(file) if name in ("fields", "features") else _loaded(file, file, None)
        return
    with path.open("rb") as raw:
        found = _loaded(path, raw, None)
        if isinstance(found, np.ndarray):
            raise FileError(path, "a single array", fix=f"Save all with np.savez, or a folder of .npy files. {_WANTED}")
        ragged, whole = "point_offsets" in found.files, {}
        for name in found.files:
            try:
                whole[name if ragged else _known(path, name)] = found[name]
            except CalmError:
                raise
            except Exception as error:  # numpy and zipfile raise many kinds
                raise loading_problem(path, error, f"array {name}") from None
        yield from offset_arrays(path, whole) if ragged else whole.items()


def _known(path: Path, name: str) -> str:
    if name not in _NAMES and name.partition("/")[0] not in (_NAMED if "/" in name else ()):
        raise FileError(path, "is not known", part=f"array {name}", fix=f"{suggestion(name, list(_NAMES))} {_WANTED}")
    return name


def _loaded(path: Path, file: Path | BinaryIO, mode: Literal["r"] | None) -> Any:
    try:
        return np.load(file, mmap_mode=mode, allow_pickle=False)
    except Exception as error:  # numpy and zipfile raise many kinds
        raise loading_problem(Path(path), error) from None


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


def _codes(node_type: np.ndarray | Sequence[np.ndarray] | None, names: Mapping[int, str] | None) -> dict[int, str]:
    names = {int(code): str(name) for code, name in (names or {}).items()}
    if node_type is None:
        return names
    parts = [node_type] if isinstance(node_type, np.ndarray) else node_type
    found = np.unique(np.concatenate([np.unique(part) for part in parts]))
    return {int(code): names.get(int(code), f"type {code}") for code in found} | names


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
