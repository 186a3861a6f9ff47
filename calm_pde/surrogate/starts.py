"""Initial states from files: the first frames of a data file, or arrays that a user saved."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from calm_pde.config import suggestion
from calm_pde.data.header import digest
from calm_pde.data.storage import DataFile
from calm_pde.errors import FileError, InputError
from calm_pde.records.description import Description
from calm_pde.records.trajectory import SPLITS, Source, Split, Trajectory
from calm_pde.surrogate.evaluate import check_fits
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.surrogate.told import Told

_ARRAYS = ("initial", "points", "node_type", "cells", "features")
_NAMED = (
    "parameters",
    "signals",
    "signal_times",
    "prescribed",
)  # each array of theirs has a name of its own: parameters/conductivity
_SAME_TIME = 1e-6  # of a frame: times that differ by less are one


@dataclass(frozen=True)
class Starts:
    """Where solving begins, and what is known of how it goes on.

    Args:
        source: trajectories of one frame each.
        numbers: of each trajectory in the file that it comes from.
        known_times: the frames of the file, physical, from the initial state; empty where only that is known.
        told: what is told beside the initial state of the trajectory with a number, for these times.
        truth: all frames of the trajectory with a number, (time, point, channel).
    """

    source: Source
    numbers: Sequence[int]
    known_times: np.ndarray
    told: Callable[[int, np.ndarray], Told]
    truth: Callable[[int], np.ndarray] | None = None

    def first(self, count: int) -> Starts:
        """Only so many of them."""
        if count < 1:
            raise InputError("samples", expected="at least 1", got=str(count), fix="Say how many you want.")
        source = self.source
        fewer = replace(source, trajectories=islice(source.trajectories, count), count=min(count, source.count))
        return replace(self, source=fewer, numbers=self.numbers[:count])

    def frames(self, times: np.ndarray) -> np.ndarray | None:
        """Which frames of the file are the truth at these times; None where one is missing."""
        if not len(self.known_times) or not len(times):
            return None
        apart = np.abs(self.known_times - times[:, None])
        spacing = float(np.median(np.diff(self.known_times))) if len(self.known_times) > 1 else 1.0
        return apart.argmin(axis=1) if (apart.min(axis=1) <= _SAME_TIME * spacing).all() else None


def _described(surrogate: Surrogate, name: str, origin: dict[str, Any], **more: Any) -> Description:
    trained = surrogate.description
    weights = {name: value.detach().cpu().numpy() for name, value in surrogate.model.state_dict().items()}
    known = {key: trained.provenance[key] for key in ("data", "seed", "versions") if key in trained.provenance}
    recipe = trained.provenance.get("recipe")
    known |= {"recipe": recipe["name"]} if isinstance(recipe, dict) and "name" in recipe else {}
    named = {"kind": surrogate.card.kind, "weights": digest(weights).hex(), **known}
    of_input: dict[str, Any] = {"conserved": (), "grid_shape": None, "features": (), "parameters": (), "signals": ()} | more
    conditions = (*of_input["parameters"], *of_input["signals"])
    return replace(
        trained,
        name=f"{name}, predicted",
        times=np.zeros(1),
        units={name: unit for name, unit in (trained.units | of_input.pop("units", {})).items() if name in conditions},
        prescribed=(),
        provenance={"source": "predicted", "surrogate": named, "input": origin},
        **of_input,
    )


def file_starts(path: Path, surrogate: Surrogate, split: Split | None) -> Starts:
    """The first frames of a data file."""
    file = DataFile(path)
    check_fits(surrogate, file)
    indices = np.arange(len(file)) if split is None else file.indices(split)
    if not len(indices):
        raise FileError(path, f"holds no {split} trajectories", fix=f"Choose another of {', '.join(SPLITS)}.")
    names = surrogate.description.field_names
    places = [file.description.field_names.index(name) for name in names]
    known = file.description.of(names)
    takes_kinds = surrogate.takes_node_types
    described = _described(
        surrogate,
        known.name,
        {"name": path.name, "fingerprint": file.fingerprint},
        points=known.points,
        cells=known.cells,
        node_type=known.node_type if takes_kinds else None,
        features=known.features if surrogate.task == "steady" or surrogate.conditions["features"] else (),
        parameters=known.parameters,
        signals=known.signals if surrogate.conditions["signals"] else (),
        units=known.units,
        conserved=known.conserved,
        grid_shape=known.grid_shape,
    )

    def trajectories() -> Iterator[Trajectory]:
        with file:
            for index in indices:
                found = file.trajectory(int(index), slice(0, 1))
                kept = {"fields": found.fields[..., places], "node_type": found.node_type if takes_kinds else None}
                if found.signal_times is not None:
                    taken = bool(described.signals)
                    kept["signal_times"] = found.signal_times - file.times[0] if taken else None
                    kept["signals"] = found.signals if taken else None
                yield replace(found, **kept, features=found.features if described.features else None)

    def truth(number: int) -> np.ndarray:
        return file.trajectory(number).fields[..., places]

    def told(number: int, times: np.ndarray) -> Told:
        return _told(surrogate, file, number, times, truth)

    numbers = [int(index) for index in indices]
    return Starts(Source(described, trajectories(), len(numbers)), numbers, file.times - file.times[0], told, truth)


def _told(surrogate: Surrogate, file: DataFile, number: int, times: np.ndarray, truth: Callable[[int], np.ndarray]) -> Told:
    """What a data file tells of a trajectory beside its first frame, with times from there."""
    found, there, wanted = file.trajectory(number, slice(0, 1)), file.description.conditions, surrogate.conditions
    told: dict[str, Any] = {}
    if wanted["parameters"] and found.parameters is not None:
        told["parameters"] = {name: found.parameters[there["parameters"].index(name)] for name in wanted["parameters"]}
    if wanted["signals"] and found.signals is not None and found.signal_times is not None:
        knots = found.signal_times - file.times[0]
        told["signals"] = {name: (knots, found.signals[:, there["signals"].index(name)]) for name in wanted["signals"]}
    if wanted["features"] and found.features is not None:
        told["features"] = found.features[:, [there["features"].index(name) for name in wanted["features"]]]
    if surrogate.translator.prescribed:
        told["prescribed"] = _prescribed(surrogate, file, truth(number), times)
    return Told(**told)


def _prescribed(surrogate: Surrogate, file: DataFile, frames: np.ndarray, times: np.ndarray) -> dict[str, np.ndarray]:
    """The true values at the asked times, linear between the frames of the file; what is not prescribed is not read."""
    known = file.times - file.times[0]
    if len(times) and times[-1] > known[-1] * (1 + _SAME_TIME):
        raise FileError(
            file.path,
            f"tells what is prescribed until {known[-1]:g} after the first frame, and times reach {times[-1]:g}",
            part="times",
            fix="Ask for earlier times.",
        )
    later = np.clip(np.searchsorted(known, times), 1, max(1, len(known) - 1)) if len(known) > 1 else np.zeros(0, dtype=int)
    asked = frames[:1]
    if len(times):
        share = ((times - known[later - 1]) / (known[later] - known[later - 1]))[:, None, None]
        asked = np.where(share >= 1, frames[later], frames[later - 1] * (1 - share) + frames[later] * share)
    names = surrogate.description.field_names
    return {one.field: asked[..., names.index(one.field)] for one in surrogate.translator.prescribed}


def array_starts(path: Path, surrogate: Surrogate) -> Starts:
    """Initial states from an .npz file, and what is told beside them as `Surrogate.solve` takes it: `parameters/NAME`,
    `signals/NAME` with `signal_times/NAME` from the initial state, `features`, `prescribed/FIELD`.

    What has no axis of samples is for all of them; where nothing has one, there is one sample.
    """
    found = _arrays(path)
    for name in found:
        if name not in _ARRAYS and name.partition("/")[0] not in (_NAMED if "/" in name else ()):
            raise FileError(path, "is not known", part=f"array {name}", fix=suggestion(name, list(_ARRAYS)))
    steady, trained = surrogate.task == "steady", surrogate.description
    points = _cloud(path, _wanted(path, found, "points"), trained.box.dim)
    initial = found.get("initial") if steady and not trained.features else _wanted(path, found, "initial")
    names = [field.name for field in (trained.features if steady else trained.fields)]
    channels = len(names) or trained.box.dim
    wanted = (points.shape[-2], channels)
    if initial is not None and (initial.ndim not in (2, 3) or initial.shape[-2:] != wanted):
        listed = ", ".join(names) or "the coordinates"
        expected = f"expected (point, channel) = {wanted} or (sample, point, channel), with channels {listed}"
        raise FileError(path, f"{expected}, got shape {initial.shape}", part="array initial", fix="One row per point.")
    beside = _named_arrays(found)
    counted = {"initial": initial, "points": points}
    samples = {name: len(values) for name, values in counted.items() if values is not None and values.ndim == 3}
    samples |= beside.samples
    if len(set(samples.values())) > 1:
        named = ", ".join(f"{name} {count}" for name, count in samples.items())
        raise FileError(path, f"samples are counted differently: {named}", fix="Give one of each, or one for all.")
    count = max(samples.values(), default=1)
    shared, own = _meshes(path, found, points, count)
    kept = {kind: names for kind, names in surrogate.conditions.items() if kind != "features" and getattr(beside, kind)}
    described = _described(
        surrogate,
        path.stem,
        {"name": path.name},
        features=trained.features if steady else (),
        **kept,
        **shared,
    )

    def trajectories() -> Iterator[Trajectory]:
        for index in range(count):
            state = None if initial is None else initial if initial.ndim == 2 else initial[index]
            fields = np.zeros((1, points.shape[-2], 0)) if steady or state is None else state[None]
            yield Trajectory(fields, "test", features=state if steady else None, **own[index])

    def told(number: int, _: np.ndarray) -> Told:
        return beside.of(number, count)

    return Starts(Source(described, trajectories(), count), range(count), np.zeros(0), told)


def _meshes(
    path: Path, found: dict[str, np.ndarray], points: np.ndarray, count: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Points, node types and cells that so many samples share; or, where some differ, those of each."""
    kinds, cells = found.get("node_type"), found.get("cells")
    if kinds is not None and kinds.shape not in (points.shape[-2:-1], (count, points.shape[-2])):
        expected = f"expected one code for each of {points.shape[-2]} points"
        raise FileError(path, f"{expected}, got shape {kinds.shape}", part="array node_type", fix="One per point.")
    if cells is not None and not _are_cells(cells, count):
        expected = f"expected whole numbers (cell, corner) or (sample, cell, corner), got {cells.dtype} of shape {cells.shape}"
        raise FileError(path, expected, part="array cells", fix="A row per cell.")
    parts = {"points": (points, 2), "node_type": (kinds, 1), "cells": (cells, 2)}
    each = {name: values is not None and values.ndim > axes for name, (values, axes) in parts.items()}
    whole = {name: values for name, (values, _) in parts.items() if values is not None}
    if not any(each.values()):
        return whole, [{}] * count
    return {}, [{name: values[index] if each[name] else values for name, values in whole.items()} for index in range(count)]


def _are_cells(cells: np.ndarray, count: int) -> bool:
    return cells.dtype.kind in "iu" and (cells.ndim == 2 or (cells.ndim == 3 and len(cells) == count))


def _named_arrays(found: dict[str, np.ndarray]) -> Told:
    """What has names of its own, and features."""
    named: dict[str, dict[str, Any]] = {kind: {} for kind in _NAMED}
    for key in found:
        kind, slash, name = key.partition("/")
        if slash:
            named[kind][name] = found[key]
    knots = named["signal_times"]
    signals = {name: (knots[name], line) if name in knots else line for name, line in named["signals"].items()}
    return Told(named["parameters"] or None, signals or None, found.get("features"), named["prescribed"] or None)


def array_points(path: Path, dim: int) -> np.ndarray:
    """The points (point, dim) of an .npy file, or of an .npz file with `points`."""
    return _cloud(path, _wanted(path, _arrays(path), "points"), dim, samples=False)


def _cloud(path: Path, points: np.ndarray, dim: int, samples: bool = True) -> np.ndarray:
    if points.ndim not in ((2, 3) if samples else (2,)) or points.shape[-1] != dim or not points.size:
        expected = f"(point, {dim}){f' or (sample, point, {dim})' if samples else ''}"
        raise FileError(
            path,
            f"expected {expected}, got shape {points.shape}",
            part="array points",
            fix=f"The surrogate lives in {dim}-D.",
        )
    return points


def _wanted(path: Path, found: dict[str, np.ndarray], name: str) -> np.ndarray:
    if name not in found:
        raise FileError(path, f"is missing; there are {', '.join(found) or 'none'}", part=f"array {name}", fix="Add it.")
    return found[name]


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz file; the one of an .npy file is called points. Nothing in them is executed."""
    if not path.is_file():
        raise FileError(path, "there is no such file", fix="Save one with np.savez.")
    try:
        with path.open("rb") as raw:
            content = np.load(raw, allow_pickle=False)
            found = {"points": content} if isinstance(content, np.ndarray) else {name: content[name] for name in content.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise FileError(path, f"not a readable NumPy file ({error})", fix="Save it with np.savez, as numbers.") from error
    for name, values in found.items():
        if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
            raise FileError(path, "holds something else than finite numbers", part=f"array {name}", fix="Repair it.")
    return found
