"""Writing a data file in a stream, trajectory by trajectory; it appears whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import h5py
import numpy as np

from calm_pde.data.header import MESH, SIGNALS, content_of, digest, fingerprint, header_of, typed
from calm_pde.data.storage import DataFile
from calm_pde.errors import InputError
from calm_pde.files.atomic import replacing
from calm_pde.records.description import Description
from calm_pde.records.signals import knot_problem
from calm_pde.records.trajectory import SPLITS, Source, Trajectory

_CHUNK = 256 * 2**10  # bytes of a chunk: small enough for a window of a short trajectory, large enough to stream


@dataclass
class Writer:
    """A data file in the making: `add` trajectory by trajectory; `write` is the door that makes it atomic."""

    file: h5py.File
    description: Description

    def __post_init__(self) -> None:
        self.header = header_of(self.description)
        self._sets: dict[str, h5py.Dataset] = {}
        self._splits: list[int] = []
        self._seconds: list[float] = []
        self._digests: list[bytes] = []
        self._starts = {"point": [0], "cell": [0], "signal": [0]}
        self._shared = {name: typed(name, getattr(self.description, name)) for name in MESH}
        if not self.header.shared_mesh and any(value is not None for value in self._shared.values()):
            raise InputError("cells", expected="none without shared points", got="some", fix="Put them into each trajectory.")
        for name, value in self._shared.items():
            if value is not None:
                self._store(name, value)

    def add(self, trajectory: Trajectory) -> None:
        if trajectory.signals is not None and trajectory.signal_times is None:
            trajectory = replace(trajectory, signal_times=self.description.times)
        content = content_of(trajectory)
        self._check(content)
        if self.header.shared_mesh:
            self._append("fields", content["fields"][None])
            if "features" in content:
                self._append("features", content["features"][None])
        else:
            self._append("fields", content["fields"].reshape(-1, len(self.header.fields)))
            for name in ("features", *MESH):
                if name in content:
                    self._append(name, content[name])
            self._starts["point"].append(self._starts["point"][-1] + len(content["points"]))
            self._starts["cell"].append(self._starts["cell"][-1] + len(content.get("cells", ())))
        if "parameters" in content:
            self._append("parameters", content["parameters"][None])
        if "signals" in content:
            for name in SIGNALS:
                self._append(name, content[name])
            self._starts["signal"].append(self._starts["signal"][-1] + len(content["signal_times"]))
        self._splits.append(SPLITS.index(trajectory.split))
        self._seconds.append(trajectory.seconds)
        self._digests.append(digest(content))

    def finish(self) -> None:
        if not self._splits:
            raise InputError("trajectories", expected="at least one", got="none", fix="Check the source's selection.")
        splits = np.array(self._splits, dtype=np.uint8)
        digests = np.frombuffer(b"".join(self._digests), dtype=np.uint8).reshape(-1, 32)
        times = np.asarray(self.description.times, dtype=np.float64)
        self.header = self.header.model_copy(update={"arrays": tuple(name for name in MESH[1:] if name in self._sets)})
        own = ([] if self.header.shared_mesh else ["points", "cells"]) + ["signals"]
        for name in (name.removesuffix("s") for name in own if name in self._sets):
            self._store(f"{name}_offsets", np.array(self._starts[name], dtype=np.int64))
        self._store("times", times)
        self._store("split", splits)
        self._store("seconds", np.array(self._seconds, dtype=np.float64))
        self._store("digests", digests)
        total = fingerprint(self.header, times, self._shared, splits, digests)
        self._store("fingerprint", np.frombuffer(total, dtype=np.uint8))
        self._store("header", np.frombuffer(self.header.written(), dtype=np.uint8))

    def _check(self, content: dict[str, np.ndarray]) -> None:
        """The trajectory has what the description announces, in shapes that fit."""
        header, index = self.header, len(self._splits)
        own = not header.shared_mesh
        mesh = content.get("points") if own else self._shared["points"]
        if mesh is None or own != ("points" in content):
            raise _unfit(index, "points", "its own mesh" if own else "no mesh beside the shared one", "none" if own else "one")
        points, dim = len(mesh), len(header.lower)
        wanted: dict[str, tuple[int, ...]] = {"fields": (len(self.description.times), points, len(header.fields))}
        wanted |= {"points": (points, dim)} if own else {}
        wanted |= {"features": (points, len(header.features))} if header.features else {}
        wanted |= {"parameters": (len(header.parameters),)} if header.parameters else {}
        if header.signals:
            knots = np.shape(content.get("signal_times", ()))[:1]
            wanted |= {"signal_times": knots or (0,), "signals": (*(knots or (0,)), len(header.signals))}
        wanted |= {name: (points,) for name in ("node_type",) if own and name in content}
        for name, shape in wanted.items():
            got = content[name].shape if name in content else None
            if got != shape:
                raise _unfit(index, name, f"shape {shape}", "nothing" if got is None else f"shape {got}")
        if header.signals:
            problem = knot_problem(content["signal_times"], self.description.times)
            if problem:
                raise _unfit(index, "signal_times", *problem)
        surplus = content.keys() - wanted.keys() - ({"cells"} if own else set())
        if surplus:
            raise _unfit(index, sorted(surplus)[0], "nothing, since the description does not announce it", "an array")
        for name in ("cells", "node_type"):
            if own and index and (name in content) != (name in self._sets):
                raise _unfit(index, name, "an array in every trajectory or in none", "a mixture")
        if "fields" in self._sets and content["fields"].dtype != self._sets["fields"].dtype:
            raise _unfit(index, "fields", f"{self._sets['fields'].dtype} as before", str(content["fields"].dtype))

    def _append(self, name: str, rows: np.ndarray) -> None:
        if name not in self._sets:
            self._sets[name] = self.file.create_dataset(
                name,
                shape=(0, *rows.shape[1:]),
                maxshape=(None, *rows.shape[1:]),
                chunks=_chunks(rows),
                dtype=rows.dtype,
                fletcher32=True,
            )
        dataset = self._sets[name]
        dataset.resize(dataset.shape[0] + len(rows), axis=0)
        dataset[len(dataset) - len(rows) :] = rows

    def _store(self, name: str, values: np.ndarray) -> None:
        self._sets[name] = self.file.create_dataset(name, data=values, chunks=_chunks(values), fletcher32=True)


def write(
    source: Source, path: str | os.PathLike[str], overwrite: bool = False, progress: Callable[[Trajectory], None] | None = None
) -> DataFile:
    """Stream a source into a data file; an interrupted attempt leaves nothing behind."""
    path = Path(path)
    with replacing(path, overwrite) as part:
        with h5py.File(part, "w", libver=("v110", "v110")) as file:  # from this version on, HDF5 checksums its own structure
            writer = Writer(file, source.description)
            for trajectory in source.trajectories:
                writer.add(trajectory)
                if progress is not None:
                    progress(trajectory)
            writer.finish()
        DataFile(part).close()
    return DataFile(path)


def _chunks(values: np.ndarray) -> tuple[int, ...]:
    """About `_CHUNK` bytes of neighboring numbers; never more than one entry of the first axis of a 4-D array."""
    room = max(1, _CHUNK // values.itemsize)
    chunk: list[int] = []
    for size in reversed(values.shape):
        taken = max(1, min(size, room))
        chunk.append(taken)
        room = max(1, room // taken)
    if values.ndim == 4:
        chunk[-1] = 1
    return tuple(reversed(chunk))


def _unfit(index: int, name: str, expected: str, got: str) -> InputError:
    return InputError(f"trajectory {index}, {name}", expected=expected, got=got, fix="Fix the source of the trajectories.")
