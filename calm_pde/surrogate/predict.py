"""Prediction from file to file: initial states in, a surrogate's answers out as data, as arrays, or as files for ParaView."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calm_pde.data.readers.condition_forms import at_common_knots
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.errors import InputError
from calm_pde.export import ENDINGS, layers_path, sample_geometry, sample_paths, write_layers, write_sample
from calm_pde.export.arrays import named_arrays
from calm_pde.export.cells import vertices
from calm_pde.export.meshes import Mesh, read_mesh
from calm_pde.files.atomic import check_free, replacing
from calm_pde.nn.query_points import own_queries
from calm_pde.progress import barred
from calm_pde.records.description import Description
from calm_pde.records.trajectory import Source, Split, Trajectory
from calm_pde.surrogate.starts import Starts, array_points, array_starts, file_starts
from calm_pde.surrogate.surrogate import Surrogate, check_answer, surrogate_of
from calm_pde.surrogate.told import Told

_MOST_FILES = 50
_MESH = ("points", "cells", "node_type")


@barred("predict")
def predict(
    run: Surrogate | str | os.PathLike[str],
    input: DataFile | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    times: Sequence[float] | None = None,
    queries: str | os.PathLike[str] | None = None,
    split: Split | None = None,
    samples: int | None = None,
    all: bool = False,
    overwrite: bool = False,
    allow_nonfinite: bool = False,
    parameters: Mapping[str, float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Solve from every initial state of a file; the fields at the points or at the queries go to `out`.

    Answers at the points begin with the initial state, at time 0; answers elsewhere hold the asked times alone. For ParaView
    there is one file per sample (y.vtkhdf ─▶ y_0003.vtkhdf; y.vtu ─▶ y_0003.pvd with its steps), with truth and error where
    the input has the same frames, and one with the learned query points (y_queries.vtkhdf). What to open first is returned.

    Args:
        run: a surrogate, or the folder of a run or of a surrogate.
        input: a data file, whose first frames are taken; or an .npz file with `initial` (point, channel) or (sample, point,
            channel), `points`, and `node_type` and `cells` where the surrogate wants them. A steady surrogate is given features
            as `initial`.
            Conditions come from it too, in .npz `parameters/NAME`, `signals/NAME`, `features`, …, as in `array_starts`.
        out: a data file (.h5); an .npz file with `fields` (sample, time, point, channel), `points` and `times`; or what the
            names of files for ParaView begin with and end in (.vtkhdf, .vtu).
        times: physical, from the initial state; by default the trained frames.
        queries: a mesh (.vtu, .vtk, .msh, …), an .npy file of points, or an .npz file with `points`.
        split: of a data file; by default all of it.
        samples: only so many, the first.
        all: also where more than 50 samples, asked for by neither split nor samples, would each become a file for ParaView.
        allow_nonfinite: write answers that blew up as they are, instead of an error that says which did and when.
        parameters: {name: number} instead of those of the input, for all samples.
    """
    surrogate, out = surrogate_of(run), Path(out)
    input = input.path if isinstance(input, DataFile) else Path(input)
    _check_ending(out)
    where = None if queries is None else _query_mesh(Path(queries), surrogate)
    starts = array_starts(input, surrogate) if input.suffix == ".npz" else file_starts(input, surrogate, split)
    if samples is not None:
        starts = starts.first(samples)
    if out.suffix in ENDINGS and not (split or samples or all):
        _check_few(starts.source.count, out)
    answers = _answers(surrogate, starts, times, where, allow_nonfinite, dict(parameters or {}))
    done = iter(range(1, answers.count + 1))

    def show(_: Trajectory) -> None:
        if progress is not None:
            progress(next(done), answers.count)

    if out.suffix in ENDINGS:
        return _export(answers, starts, where, _layers(surrogate), out, overwrite, show)
    if out.suffix == ".h5":
        write(answers, out, overwrite, show).close()
    else:
        _write_arrays(answers, out, overwrite, show)
    return out


def _check_ending(out: Path) -> None:
    endings = (".h5", ".npz", *ENDINGS)
    if out.suffix not in endings:
        listed = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise InputError("out", expected=f"a file name that ends in {listed}", got=str(out), fix="Choose one of them.")


def _check_few(count: int, out: Path) -> None:
    if count > _MOST_FILES:
        raise InputError(
            "out",
            expected=f"at most {_MOST_FILES} files for ParaView that nobody asked for, since every sample becomes one",
            got=f"{count} samples for {out}",
            fix="Choose some with --split or --samples, or say --all.",
        )


def _query_mesh(path: Path, surrogate: Surrogate) -> Mesh:
    dim = surrogate.description.box.dim
    if path.suffix not in (".npy", ".npz"):
        return read_mesh(path, dim)
    points = array_points(path, dim)
    return Mesh(points, vertices(points), None)


def _answers(
    surrogate: Surrogate,
    starts: Starts,
    times: Sequence[float] | None,
    queries: Mesh | None,
    allow_nonfinite: bool,
    parameters: dict[str, float],
) -> Source:
    """The starts, solved one after the other, with these parameters instead of theirs."""
    given, rollout = starts.source.description, surrogate.task == "rollout"
    asked = surrogate.asked_times(times)
    begins = rollout and queries is None
    described = replace(given, times=np.concatenate([[0.0], asked]) if begins or not rollout else asked)
    if parameters and not given.parameters:
        described = replace(described, parameters=surrogate.conditions["parameters"])
    places = None if queries is None else queries.points
    if queries is not None:
        mesh = {"points": places, "cells": queries.cells, "node_type": None, "grid_shape": None}
        described = replace(described, features=(), **mesh)

    def trajectories() -> Iterator[Trajectory]:
        for number, start in zip(starts.numbers, starts.source.trajectories, strict=True):
            mesh = start if given.points is None else given
            initial = start.fields[0] if surrogate.task != "steady" else start.features
            told = starts.told(number, asked)
            if parameters:
                told = replace(told, parameters={**(told.parameters or {}), **parameters})
            steps, cells = asked if rollout else None, mesh.cells if surrogate.takes_cells else None
            clock = time.perf_counter()
            found = surrogate.solve(
                initial, mesh.points, steps, places, mesh.node_type, allow_nonfinite=True, cells=cells, **vars(told)
            )
            seconds = time.perf_counter() - clock
            if not allow_nonfinite:
                check_answer(found, asked, number)
            if begins:
                found = np.concatenate([start.fields[:1], found])
            kept: dict[str, Any] = dict.fromkeys(_MESH) if queries is not None else {}
            features = start.features if described.features else None
            kept |= told_arrays(described, start, told, surrogate.description.times)
            yield replace(start, fields=found.astype(np.float32), seconds=seconds, features=features, **kept)

    return Source(described, trajectories(), starts.source.count)


def told_arrays(described: Description, start: Trajectory, told: Told, frames: np.ndarray) -> dict[str, Any]:
    """Parameters and signals as the file of the answers keeps them, with times from the initial state.

    Args:
        frames: when signals without times are told.
    """
    found: dict[str, Any] = {}
    if described.parameters:
        before = start.parameters if start.parameters is not None else np.full(len(described.parameters), np.nan)
        now = told.parameters or {}
        found["parameters"] = np.array([now.get(name, one) for name, one in zip(described.parameters, before, strict=True)])
    if described.signals and start.signals is None:
        lines = [told.signals[name] for name in described.signals]
        pairs = [line if isinstance(line, tuple) else (frames - frames[0], line) for line in lines]
        found["signal_times"], found["signals"] = at_common_knots(pairs)
    return found


def _export(
    answers: Source,
    starts: Starts,
    queries: Mesh | None,
    layers: dict[str, np.ndarray],
    out: Path,
    overwrite: bool,
    show: Callable[[Trajectory], None],
) -> Path:
    """One sample in memory at a time; that a file is in the way is said before the first is solved."""
    described = answers.description
    files = [sample_paths(out, number, len(described.times)) for number in starts.numbers]
    check_free((path for paths in files for path in paths), overwrite)
    check_free([layers_path(out)] if layers else [], overwrite)
    frames = starts.frames(described.times) if queries is None else None
    for number, answer in zip(starts.numbers, answers.trajectories, strict=True):
        truth = None if frames is None or starts.truth is None else starts.truth(number)[frames]
        geometry = sample_geometry(described, answer) if queries is None else queries.geometry
        write_sample(out, number, geometry, named_arrays(described, answer, truth), described.times, overwrite)
        show(answer)
    if layers:
        write_layers(out, layers, overwrite)
    return files[0][0]


def _layers(surrogate: Surrogate) -> dict[str, np.ndarray]:
    """The learned query points of each layer that has some, physical; what left a periodic box comes in on its other side."""
    if not surrogate.model.config.abilities.shows_inside:
        return {}
    box = surrogate.description.box
    found = {}
    for name, weight in own_queries(surrogate.model.state_dict()).items():
        unit = weight.double().cpu().numpy()
        found[name] = box.to_physical(np.where(box.periodic, unit - np.floor(unit), unit))
    return found


def _by_name(described: Description, found: list[Trajectory], out: Path) -> dict[str, list[Any]]:
    """Parameters and signals by name, as an .npz file has them."""
    named: dict[str, list[Any]] = {}
    for place, name in enumerate(described.parameters):
        named[f"parameters/{name}"] = [one.parameters[place] for one in found if one.parameters is not None]
    for place, name in enumerate(described.signals):
        named[f"signals/{name}"] = [one.signals[:, place] for one in found if one.signals is not None]
        named[f"signal_times/{name}"] = [one.signal_times for one in found if one.signal_times is not None]
    if len({len(one.signals) for one in found if one.signals is not None}) > 1:
        raise InputError("out", expected="a data file, since knots differ in number", got=str(out), fix="Name it .h5.")
    return named


def _write_arrays(answers: Source, out: Path, overwrite: bool, show: Callable[[Trajectory], None]) -> None:
    described = answers.description
    with replacing(out, overwrite) as part:
        found = []
        for trajectory in answers.trajectories:
            found.append(trajectory)
            show(trajectory)
        arrays: dict[str, list[Any]] = {"fields": [trajectory.fields for trajectory in found]}
        for name in ("points", "node_type"):
            if getattr(described, name) is None and getattr(found[0], name) is not None:
                arrays[name] = [getattr(trajectory, name) for trajectory in found]
        if len({len(row) for row in arrays.get("points", ())}) > 1:
            raise InputError("out", expected="a data file, since meshes differ in size", got=str(out), fix="Name it .h5.")
        arrays |= _by_name(described, found, out)
        stacked = {name: np.stack(rows) for name, rows in arrays.items()}
        shared = {name: getattr(described, name) for name in ("points", "node_type", "times")}
        with part.open("wb") as raw:
            np.savez(raw, **stacked, **{name: values for name, values in shared.items() if values is not None})
