"""Prediction from file to file: initial states in, a surrogate's answers out as a data file or as arrays."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calm_pde.config import suggestion
from calm_pde.data.header import digest
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.errors import FileError, InputError
from calm_pde.evaluate import check_fits
from calm_pde.files import replacing
from calm_pde.surrogate import Surrogate
from calm_pde.trajectories import SPLITS, Description, Source, Split, Trajectory

_ARRAYS = ("initial", "points", "node_type")
_MESH = ("points", "cells", "node_type")


def predict(
    surrogate: Surrogate,
    input: Path,
    out: Path,
    *,
    times: Sequence[float] | None = None,
    queries: Path | None = None,
    split: Split | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Solve from every initial state of a file; the fields at the points or at the queries go to `out`.

    Answers at the points begin with the initial state, at time 0; answers elsewhere hold the asked times alone.

    Args:
        input: a data file, whose first frames are taken; or an .npz file with `initial` (point, channel) or (sample, point,
            channel), `points`, and `node_type` where the surrogate wants it. A steady surrogate is given features as `initial`.
        out: a data file (.h5), or an .npz file with `fields` (sample, time, point, channel), `points` and `times`.
        times: physical, from the initial state; by default the trained frames.
        queries: an .npy file of points, or an .npz file with `points`.
        split: of a data file; by default all of it.
    """
    if out.suffix not in (".h5", ".npz"):
        raise InputError("out", expected="a file name that ends in .h5 or .npz", got=str(out), fix="Choose one of them.")
    where = None if queries is None else _query_points(queries, surrogate)
    starts = _array_starts(input, surrogate) if input.suffix == ".npz" else _file_starts(input, surrogate, split)
    answers = _answers(surrogate, starts, times, where)
    done = iter(range(1, answers.count + 1))

    def show(_: Trajectory) -> None:
        if progress is not None:
            progress(next(done), answers.count)

    if out.suffix == ".h5":
        write(answers, out, overwrite, show).close()
    else:
        _write_arrays(answers, out, overwrite, show)
    return out


def _answers(surrogate: Surrogate, starts: Source, times: Sequence[float] | None, queries: np.ndarray | None) -> Source:
    """The starts, solved one after the other."""
    given, rollout = starts.description, surrogate.task == "rollout"
    asked = surrogate.asked_times(times)
    begins = rollout and queries is None
    described = replace(given, times=np.concatenate([[0.0], asked]) if begins or not rollout else asked)
    if queries is not None:
        described = replace(described, points=queries, cells=None, node_type=None, grid_shape=None, features=())

    def trajectories() -> Iterator[Trajectory]:
        for start in starts.trajectories:
            mesh = start if given.points is None else given
            initial = start.fields[0] if surrogate.task != "steady" else start.features
            clock = time.perf_counter()
            found = surrogate.solve(initial, mesh.points, asked if rollout else None, queries, mesh.node_type)
            seconds = time.perf_counter() - clock
            if begins:
                found = np.concatenate([start.fields[:1], found])
            kept = dict.fromkeys(_MESH) if queries is not None else {}
            features = start.features if described.features else None
            yield replace(start, fields=found.astype(np.float32), seconds=seconds, features=features, **kept)

    return Source(described, trajectories(), starts.count)


def _described(surrogate: Surrogate, name: str, origin: dict[str, Any], **more: Any) -> Description:
    card = surrogate.card
    weights = {name: value.detach().cpu().numpy() for name, value in surrogate.model.state_dict().items()}
    trained = {key: card.provenance[key] for key in ("data", "seed", "versions") if key in card.provenance}
    recipe = card.provenance.get("recipe")
    trained |= {"recipe": recipe["name"]} if isinstance(recipe, dict) and "name" in recipe else {}
    named = {"kind": card.kind, "weights": digest(weights).hex(), **trained}
    return Description(
        name=f"{name}, predicted",
        fields=card.fields,
        box=card.box,
        times=np.zeros(1),
        node_types=card.node_types,
        features=card.features if surrogate.task == "steady" else (),
        provenance={"source": "predicted", "surrogate": named, "input": origin},
        **more,
    )


def _file_starts(path: Path, surrogate: Surrogate, split: Split | None) -> Source:
    """The first frames of a data file."""
    file = DataFile(path)
    check_fits(surrogate, file)
    indices = np.arange(len(file)) if split is None else file.indices(split)
    if not len(indices):
        raise FileError(path, f"holds no {split} trajectories", fix=f"Choose another of {', '.join(SPLITS)}.")
    known, header = file.description, file.header
    names = [field.name for field in surrogate.card.fields]
    places = [[field.name for field in header.fields].index(name) for name in names]
    takes_kinds = surrogate.takes_node_types
    described = _described(
        surrogate,
        header.name,
        {"name": path.name, "fingerprint": file.fingerprint},
        points=known.points,
        cells=known.cells,
        node_type=known.node_type if takes_kinds else None,
        parameters=header.parameters,
        conserved=tuple(name for name in header.conserved if name in names),
        grid_shape=header.grid_shape,
    )

    def trajectories() -> Iterator[Trajectory]:
        with file:
            for index in indices:
                found = file.trajectory(int(index), slice(0, 1))
                kept = {"fields": found.fields[..., places], "node_type": found.node_type if takes_kinds else None}
                yield replace(found, **kept, features=found.features if described.features else None)

    return Source(described, trajectories(), len(indices))


def _array_starts(path: Path, surrogate: Surrogate) -> Source:
    """Initial states from an .npz file; one without a sample axis is one sample."""
    found = _arrays(path)
    for name in found:
        if name not in _ARRAYS:
            raise FileError(path, "is not known", part=f"array {name}", fix=suggestion(name, list(_ARRAYS)))
    steady, card = surrogate.task == "steady", surrogate.card
    points = _cloud(path, _wanted(path, found, "points"), card.box.dim)
    initial = found.get("initial") if steady and not card.features else _wanted(path, found, "initial")
    names = [field.name for field in (card.features if steady else card.fields)]
    channels = len(names) or card.box.dim
    wanted = (points.shape[-2], channels)
    if initial is not None and (initial.ndim not in (2, 3) or initial.shape[-2:] != wanted):
        listed = ", ".join(names) or "the coordinates"
        expected = f"expected (point, channel) = {wanted} or (sample, point, channel), with channels {listed}"
        raise FileError(path, f"{expected}, got shape {initial.shape}", part="array initial", fix="One row per point.")
    counts = {len(values) for values in (initial, points) if values is not None and values.ndim == 3}
    if len(counts) > 1:
        raise FileError(path, f"initial and points count samples differently, {sorted(counts)}", fix="Give one each.")
    count, shared = counts.pop() if counts else 1, points.ndim == 2
    kinds = found.get("node_type")
    if kinds is not None and kinds.shape not in (points.shape[-2:-1], (count, points.shape[-2])):
        expected = f"expected one code for each of {points.shape[-2]} points"
        raise FileError(path, f"{expected}, got shape {kinds.shape}", part="array node_type", fix="One per point.")
    if kinds is not None and kinds.ndim == 2:  # codes of their own need meshes of their own
        points, shared = np.broadcast_to(points, (count, *points.shape[-2:])), False
    mesh = {"points": points, "node_type": kinds}
    described = _described(surrogate, path.stem, {"name": path.name}, **(mesh if shared else {}))

    def trajectories() -> Iterator[Trajectory]:
        for index in range(count):
            state = None if initial is None else initial if initial.ndim == 2 else initial[index]
            own: dict[str, Any] = {} if shared else {"points": points[index]}
            if kinds is not None and not shared:
                own["node_type"] = kinds if kinds.ndim == 1 else kinds[index]
            fields = np.zeros((1, points.shape[-2], 0)) if steady or state is None else state[None]
            yield Trajectory(fields, "test", features=state if steady else None, **own)

    return Source(described, trajectories(), count)


def _query_points(path: Path, surrogate: Surrogate) -> np.ndarray:
    found = _arrays(path)
    return _cloud(path, _wanted(path, found, "points"), surrogate.card.box.dim, samples=False)


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


def _write_arrays(answers: Source, out: Path, overwrite: bool, show: Callable[[Trajectory], None]) -> None:
    described = answers.description
    with replacing(out, overwrite) as part:
        found = []
        for trajectory in answers.trajectories:
            found.append(trajectory)
            show(trajectory)
        arrays = {"fields": [trajectory.fields for trajectory in found]}
        for name in ("points", "node_type"):
            if getattr(described, name) is None and getattr(found[0], name) is not None:
                arrays[name] = [getattr(trajectory, name) for trajectory in found]
        if len({len(row) for row in arrays.get("points", ())}) > 1:
            raise InputError("out", expected="a data file, since meshes differ in size", got=str(out), fix="Name it .h5.")
        stacked = {name: np.stack(rows) for name, rows in arrays.items()}
        shared = {name: getattr(described, name) for name in ("points", "node_type", "times")}
        with part.open("wb") as raw:
            np.savez(raw, **stacked, **{name: values for name, values in shared.items() if values is not None})
