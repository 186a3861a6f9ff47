"""The data file: HDF5 with a checksum on every array, read by trajectory and window.

docs/data_format.md specifies the layout.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calm_pde.data.header import FORMAT, MESH, SIGNALS, Header, content_of, digest, fingerprint
from calm_pde.errors import CalmError, ConfigError, FileError, InputError
from calm_pde.files.links import own
from calm_pde.notebook import html_table
from calm_pde.records.description import Description
from calm_pde.records.trajectory import SPLITS, Split, Trajectory


class DataFile:
    """A data file, open for reading; trajectories are read when asked for."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._opened: tuple[int, h5py.File] | None = None
        with self._reading("header"):
            self.header = _parsed(self.path, self._dataset("header")[()])
        self._check()

    @cached_property
    def description(self) -> Description:
        """What the file says of itself, with the shared mesh where there is one."""
        mesh = {name: self._whole(name) for name in self.mesh_arrays if self.header.shared_mesh}
        return self.header.described(self.header.box, self.times, provenance=self.header.provenance, **mesh)

    @property
    def mesh_arrays(self) -> tuple[str, ...]:
        """Which of points, cells and node_type the file holds, for all trajectories or for each."""
        return ("points", *self.header.arrays)

    @cached_property
    def times(self) -> np.ndarray:
        return self._whole("times")

    @cached_property
    def splits(self) -> np.ndarray:
        """(sample,) positions in SPLITS."""
        return self._whole("split")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all arrays, names, split, settings and seed; not of wall time, date or host."""
        return self._whole("fingerprint").tobytes().hex()

    @cached_property
    def num_points(self) -> np.ndarray:
        """(sample,) points of each trajectory."""
        if self.header.shared_mesh:
            return np.full(len(self), self._dataset("points").shape[0])
        return np.diff(self._offsets("point"))

    @cached_property
    def digests(self) -> np.ndarray:
        """(sample, 32) SHA-256 of each trajectory."""
        return self._whole("digests")

    def __len__(self) -> int:
        return len(self.splits)

    def __repr__(self) -> str:
        header, low, high = self.header, int(self.num_points.min()), int(self.num_points.max())
        sizes = ", ".join(f"{len(self.indices(split))} {split}" for split in SPLITS)
        points = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        frames = "steady" if len(self.times) == 1 else f"{len(self.times)} frames from {self.times[0]:g} to {self.times[-1]:g}"
        return (
            f"DataFile({self.path}: {header.name}, {len(self)} trajectories ({sizes}),\n"
            f"         {', '.join(map(str, header.fields))} at {points} points in {len(header.lower)}-D, {frames})"
        )

    def _repr_html_(self) -> str:
        sizes = ", ".join(f"{len(self.indices(split))} {split}" for split in SPLITS)
        low, high = int(self.num_points.min()), int(self.num_points.max())
        more = {"points": f"{low:,}" if low == high else f"{low:,} to {high:,}", "file": self.path}
        rows = {"trajectories": f"{len(self):,} ({sizes})"} | self.description.rows | more
        return html_table(f"DataFile: {self.header.name}", rows)

    def indices(self, split: Split) -> np.ndarray:
        return np.flatnonzero(self.splits == SPLITS.index(split))

    def trajectory(self, index: int, frames: slice = slice(None)) -> Trajectory:
        """A window of one trajectory; the mesh comes with it only where it is its own."""
        if not 0 <= index < len(self):
            raise InputError(
                "index", expected=f"0 … {len(self) - 1}", got=str(index), fix=f"{self.path} holds {len(self)} trajectories."
            )
        found: dict[str, Any] = {}
        with self._reading(f"trajectory {index}"):
            found["fields"] = self._fields(index, frames)
            if self.header.features:
                found["features"] = (
                    self._dataset("features")[index] if self.header.shared_mesh else self._rows("features", index)
                )
            if not self.header.shared_mesh:
                found |= {name: self._rows(name, index) for name in self.mesh_arrays}
            if self.header.parameters:
                found["parameters"] = self._dataset("parameters")[index]
            if self.header.signals:
                found |= {name: self._rows(name, index) for name in SIGNALS}
            return Trajectory(split=SPLITS[self.splits[index]], seconds=float(self._dataset("seconds")[index]), **found)

    def verify(self, index: int, trajectory: Trajectory | None = None) -> bool:
        """Whether a trajectory, read here or given, is what was written."""
        return digest(content_of(trajectory or self.trajectory(index))) == self.digests[index].tobytes()

    def verify_fingerprint(self) -> bool:
        """Whether header, shared mesh, times, split and the trajectories' digests are what was written."""
        shared = {name: getattr(self.description, name) for name in MESH}
        return fingerprint(self.header, self.times, shared, self.splits, self.digests).hex() == self.fingerprint

    def close(self) -> None:
        if self._opened is not None and self._opened[0] == os.getpid():
            self._opened[1].close()
        self._opened = None

    def __enter__(self) -> DataFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}  # a worker opens the file for itself

    @property
    def _file(self) -> h5py.File:
        if self._opened is None or self._opened[0] != os.getpid():
            if not self.path.is_file():
                raise FileError(self.path, "there is no such file", fix="Make one with `calm generate` or `calm convert`.")
            try:
                opened = h5py.File(self.path, "r")
            except OSError as error:
                raise FileError(
                    self.path,
                    f"not a readable HDF5 file ({error})",
                    fix="It is foreign, damaged or incomplete; `calm convert` reads published files.",
                ) from error
            self._refuse_links(opened)
            self._opened = (os.getpid(), opened)
        return self._opened[1]

    def _refuse_links(self, opened: h5py.File) -> None:
        """Nothing in the file may lead out of it, used or not."""
        try:
            with self._reading("layout"):
                for name in opened:
                    own(self.path, opened, str(name))
        except FileError:
            opened.close()
            raise

    def _dataset(self, name: str) -> h5py.Dataset:
        found = self._file[name]
        if not isinstance(found, h5py.Dataset):
            raise FileError(self.path, "expected an array, got a group", part=f"dataset {name}", fix=_FIX)
        return found

    @contextmanager
    def _reading(self, part: str) -> Iterator[None]:
        """Whatever HDF5 makes of a damaged file becomes one error that names file and part."""
        try:
            yield
        except CalmError:
            raise
        except KeyError as error:
            missing = str(error).strip("'\"")
            raise FileError(self.path, f"is missing or damaged ({missing})", part=part, fix=_FIX) from error
        except (OSError, RuntimeError, ValueError, TypeError, IndexError, MemoryError, OverflowError) as error:
            raise FileError(self.path, f"cannot be read: {error}", part=part, fix=_FIX) from error

    def _whole(self, name: str) -> np.ndarray:
        with self._reading(f"dataset {name}"):
            return self._dataset(name)[()]

    def _offsets(self, name: str) -> np.ndarray:
        return self._whole(f"{name}_offsets")

    @cached_property
    def _starts(self) -> dict[str, np.ndarray]:
        return {name: self._offsets(name) for name in _offset_names(self.header)}

    def _rows(self, name: str, index: int) -> np.ndarray:
        starts = self._starts["cell" if name == "cells" else "signal" if name in SIGNALS else "point"]
        return self._dataset(name)[starts[index] : starts[index + 1]]

    def _fields(self, index: int, frames: slice) -> np.ndarray:
        start, stop, step = frames.indices(len(self.times))
        if self.header.shared_mesh:
            return self._dataset("fields")[index, start:stop:step]
        first, last = self._starts["point"][index : index + 2]
        count, total = int(last - first), len(self.times)
        rows = self._dataset("fields")
        if step == 1:
            return rows[total * first + start * count : total * first + stop * count].reshape(-1, count, rows.shape[-1])
        chosen = [rows[total * first + t * count : total * first + (t + 1) * count] for t in range(start, stop, step)]
        return np.stack(chosen)

    def _check(self) -> None:
        """Shapes and types fit the header and each other; values are checked by `calm check`."""
        with self._reading("layout"):
            problem = next(_problems(self.header, dict(self._file.items())), None)
            if problem is None:
                problem = next(_wrong_values(self), None)
        if problem is not None:
            raise FileError(self.path, problem[1], part=f"dataset {problem[0]}", fix=_FIX)


_FIX = "The file is damaged or was not written by calm-pde; generate or convert it again."


def _offset_names(header: Header) -> dict[str, str]:
    """Of what trajectories differ in number, and the array whose rows are counted."""
    own = {} if header.shared_mesh else {"point": "points"} | ({"cell": "cells"} if "cells" in header.arrays else {})
    return own | ({"signal": "signal_times"} if header.signals else {})


def _parsed(path: Path, raw: np.ndarray) -> Header:
    try:
        content = json.loads(raw.tobytes())
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise FileError(path, f"does not say format = {FORMAT!r}", part="dataset header", fix=_FIX)
        header = Header.model_validate(content)
        header.box  # noqa: B018 - its corners are checked here
        return header
    except (UnicodeDecodeError, json.JSONDecodeError, AttributeError) as error:
        raise FileError(path, f"not JSON ({error})", part="dataset header", fix=_FIX) from error
    except (ConfigError, InputError) as error:
        raise FileError(path, str(error), part="dataset header", fix=_FIX) from error


def _problems(header: Header, found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    kinds = {"times": "f", "split": "u", "fields": "f", "seconds": "f", "digests": "u", "fingerprint": "u", "points": "f"}
    kinds |= {"features": "f"} if header.features else {}
    kinds |= {"parameters": "f"} if header.parameters else {}
    kinds |= dict.fromkeys(SIGNALS, "f") if header.signals else {}
    kinds |= {f"{name}_offsets": "i" for name in _offset_names(header)}
    kinds |= dict.fromkeys(header.arrays, "i")
    for name, kind in kinds.items():
        dataset = found.get(name)
        if not isinstance(dataset, h5py.Dataset):
            yield name, "is missing"
            return
        if dataset.dtype.kind != kind:
            yield name, f"expected numbers of kind {kind!r}, got {dataset.dtype}"
        if not dataset.fletcher32:
            yield name, "has no checksum"
    samples, times = found["split"].shape[:1], found["times"].shape[:1]
    points, dim = found["points"].shape[:1], (len(header.lower),)
    channels, features = (len(header.fields),), (len(header.features),)
    if samples == (0,) or times == (0,) or points == (0,):
        yield "split", "the file holds no trajectories, times or points"
    wanted = {"split": samples, "times": times, "points": points + dim, "seconds": samples}
    wanted |= {"digests": (*samples, 32), "fingerprint": (32,), "node_type": points}
    wanted |= {"parameters": (*samples, len(header.parameters))}
    wanted |= {f"{name}_offsets": (samples[0] + 1,) for name in _offset_names(header)}
    if header.signals:
        wanted |= {"signals": (*found["signal_times"].shape[:1], len(header.signals))}
        wanted |= {"signal_times": found["signal_times"].shape[:1]}
    if header.shared_mesh:
        wanted |= {"fields": samples + times + points + channels, "features": samples + points + features}
    else:
        wanted |= {"fields": (times[0] * points[0], *channels), "features": points + features}
    for name in wanted.keys() & kinds.keys():
        if found[name].shape != wanted[name]:
            yield name, f"expected shape {wanted[name]}, got {found[name].shape}"
    if "cells" in header.arrays and found["cells"].ndim != 2:
        yield "cells", f"expected (cell, corner), got shape {found['cells'].shape}"


def _wrong_values(file: DataFile) -> Iterator[tuple[str, str]]:
    if not np.isfinite(file.times).all() or (np.diff(file.times) <= 0).any():
        yield "times", "expected finite, strictly increasing numbers"
    if (file.splits >= len(SPLITS)).any():
        yield "split", f"expected 0, 1 or 2 for {', '.join(SPLITS)}, got {file.splits.max()}"
    for name, dataset in _offset_names(file.header).items():
        starts, rows = file._offsets(name), file._dataset(dataset).shape[0]
        if starts[0] != 0 or starts[-1] != rows or (np.diff(starts) < (name != "cell")).any():
            yield f"{name}_offsets", f"expected increasing offsets from 0 to {rows}"
