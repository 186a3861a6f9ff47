"""`calm check`: what is good, doubtful and wrong in a data file, in plain words with counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

from calm_pde.data.finding import Finding, verdict
from calm_pde.data.learning import Learning, split_findings
from calm_pde.data.statistics import Moments
from calm_pde.data.storage import DataFile
from calm_pde.geometry import Box
from calm_pde.records.trajectory import SPLITS, Trajectory

_FAR = 20.0  # a point this many times farther from its neighbor than its neighbors are from theirs counts as isolated
_NEIGHBORS = 8
_SAME = 1e-9  # points nearer than this, in units of the box, coincide
_JUMP = 1e3  # a trajectory or frame whose size differs from the usual by this factor counts as a jump in scale


def check(file: DataFile) -> Iterator[Finding]:
    """All findings about a file, in one pass over its trajectories."""
    count = len(file)
    yield Finding("good", "layout", _layout(file))
    yield _integrity(file)
    survey = Survey(file)
    for index in range(count):
        survey.add(index, file.trajectory(index))
    yield from survey.findings()
    yield from _times(file.times)
    yield from _splits(file)
    size = count * len(file.times) * float(file.num_points.mean()) * len(file.description.fields) * 4
    yield Finding("good", "size", f"{_size(size)} as float32; it is read by trajectory and window, never as a whole")


class Survey:
    """What is learned while the trajectories pass by."""

    def __init__(self, file: DataFile) -> None:
        description = file.description
        self.file, self.names = file, description.field_names
        self.moments = Moments(len(self.names))
        self.broken: list[int] = []
        self.damaged: list[int] = []
        self.not_finite = np.zeros(len(self.names), dtype=int)
        self.scales: list[np.ndarray] = []
        self.frame_jumps: list[int] = []
        self.geometry: Counter[str] = Counter()
        self.first: dict[str, int] = {}
        self.box = description.box
        self.learning = Learning(description)
        if description.points is not None:
            self._mesh(0, description.points, description.cells)

    def add(self, index: int, trajectory: Trajectory) -> None:
        if not self.file.verify(index, trajectory):
            self.damaged.append(index)
        finite = np.isfinite(trajectory.fields)
        features = trajectory.features
        if not finite.all() or (features is not None and not np.isfinite(features).all()):
            self.broken.append(index)
            self.not_finite += (~finite).sum(axis=(0, 1))
        else:
            self.moments.add(trajectory.fields)
            size = np.abs(trajectory.fields).max(axis=1)  # (time, channel)
            self.scales.append(size.max(axis=0))
            usual = np.median(size, axis=0)
            if ((usual > 0) & (size.max(axis=0) > _JUMP * usual)).any():
                self.frame_jumps.append(index)
        self.learning.add(index, trajectory)
        if trajectory.points is not None:
            self._mesh(index, trajectory.points, trajectory.cells)

    def findings(self) -> Iterator[Finding]:
        yield verdict(self.damaged, "checksums", "every trajectory is what was written", "not what was written", "wrong")
        per_field = ", ".join(f"{name} {count}" for name, count in zip(self.names, self.not_finite, strict=True) if count)
        broken = f"hold NaN or infinite numbers ({per_field or 'features'})"
        yield verdict(self.broken, "finite", "no NaN and no infinite numbers", broken, "wrong")
        if self.moments.count:
            yield from self._values()
        for name, good, bad, level in _GEOMETRY:
            if name == "cells" and "cells" not in self.file.mesh_arrays:
                continue
            found = self.geometry[name]
            text = f"{found} {bad}, first in trajectory {self.first[name]}" if found else good
            yield Finding(level if found else "good", name, text)
        yield from self.learning.findings()

    def _values(self) -> Iterator[Finding]:
        for place, name in enumerate(self.names):
            low, high = self.moments.lowest[place], self.moments.highest[place]
            text = f"{low:.4g} … {high:.4g}, mean {self.moments.mean[place]:.4g}, deviation {self.moments.std[place]:.4g}"
            if low == high:
                yield Finding("doubtful", f"field {name}", f"constant, {low:.6g} everywhere: nothing to learn")
            else:
                yield Finding("good", f"field {name}", text)
        scales = np.stack(self.scales)
        usual = np.median(scales, axis=0)
        outliers = np.flatnonzero(((usual > 0) & ((scales > _JUMP * usual) | (scales * _JUMP < usual))).any(axis=1))
        strange = sorted({*outliers.tolist(), *self.frame_jumps})
        yield verdict(strange, "scale", "no jumps in scale", f"jump in scale by more than {_JUMP:.0f}", "doubtful")

    def _mesh(self, index: int, points: np.ndarray, cells: np.ndarray | None) -> None:
        found = mesh_problems(points, cells, self.box, self.file.description.grid_shape)
        for name, count in found.items():
            if count:
                self.first.setdefault(name, index)
        self.geometry.update(found)


_GEOMETRY: tuple[tuple[str, str, str, Literal["doubtful", "wrong"]], ...] = (
    ("points", "all coordinates are finite", "coordinates are not finite", "wrong"),
    ("box", "all points lie in the box", "points lie outside the box", "doubtful"),
    ("duplicates", "no two points coincide", "points coincide with another one", "doubtful"),
    ("isolated", "no point is far from all others", "points are isolated", "doubtful"),
    ("cells", "all cells have valid corners", "cells name points that do not exist", "wrong"),
)


def mesh_problems(
    points: np.ndarray, cells: np.ndarray | None, box: Box, grid_shape: tuple[int, ...] | None = None
) -> dict[str, int]:
    """How many points are not finite, outside the box, doubled or isolated, and how many cells are wrong.

    The outermost points of a structured grid in an open box may coincide: there it is closed, as along the cut of a C-grid.
    """
    found = dict.fromkeys((name for name, *_ in _GEOMETRY), 0)
    if cells is not None:
        found["cells"] = int(((cells < 0) | (cells >= len(points))).any(axis=1).sum())
    found["points"] = int((~np.isfinite(points)).any(axis=1).sum())
    if found["points"]:
        return found
    unit = box.to_unit(points)
    periodic = np.array(box.periodic)
    found["box"] = int(((unit < -1e-6) | (unit > 1 + 1e-6))[:, ~periodic].any(axis=1).sum())
    folded = np.where(periodic, unit % 1.0, unit)
    folded[(folded >= 1.0) & periodic] = 0.0
    if len(points) > 1:
        lengths = np.where(periodic, 1.0, 0.0)
        count = min(_NEIGHBORS, len(points) - 1)
        away, near = cKDTree(folded, boxsize=lengths if periodic.any() else None).query(folded, k=count + 1)
        inner = np.ones(len(points), dtype=bool) if grid_shape is None or periodic.any() else ~_border(grid_shape)
        found["duplicates"] = int((away[inner, 1] <= _SAME).sum())
        nearest = np.where(away > _SAME, away, np.inf).min(axis=1)  # of those that do not coincide
        usual = np.median(nearest[near[:, 1:]], axis=1)
        found["isolated"] = int((np.isfinite(usual) & np.isfinite(nearest) & (nearest > _FAR * usual)).sum())
    return found


def _border(grid_shape: tuple[int, ...]) -> np.ndarray:
    """(point,) whether a point of a structured grid is the first or the last along any axis."""
    border = np.ones(grid_shape, dtype=bool)
    border[(slice(1, -1),) * len(grid_shape)] = False
    return border.ravel()


def _layout(file: DataFile) -> str:
    description, points = file.description, file.num_points
    fewest, most = int(points.min()), int(points.max())
    number = f"{most:,}" if fewest == most else f"{fewest:,}–{most:,}"
    mesh = f"{number} points {'shared by all' if description.shared_mesh else 'on a mesh of its own'}"
    names = ", ".join(map(str, description.fields))
    frames = "steady" if description.steady else f"{len(file.times)} frames"
    return f"{len(file):,} trajectories, {frames}, {mesh}, {description.box.dim}-D, fields: {names}"


def _integrity(file: DataFile) -> Finding:
    if file.verify_fingerprint():
        return Finding("good", "fingerprint", file.fingerprint[:16])
    return Finding("wrong", "fingerprint", "header, mesh, times, split or digests are not what was written")


def _times(times: np.ndarray) -> Iterator[Finding]:
    if len(times) > 1:
        steps = np.diff(times)
        even = steps.max() - steps.min() <= 1e-6 * steps.max()
        text = f"t = {times[0]:.6g} … {times[-1]:.6g}, steps of {np.median(steps):.6g}"
        uneven = f"{text} in the median, from {steps.min():.6g} to {steps.max():.6g}: uneven"
        yield Finding("good" if even else "doubtful", "times", text if even else uneven)


def _splits(file: DataFile) -> Iterator[Finding]:
    yield from split_findings({split: len(file.indices(split)) for split in SPLITS})
    seen: dict[bytes, int] = {}
    leaks, twins = [], []
    for index, digest in enumerate(file.digests):
        other = seen.setdefault(digest.tobytes(), index)
        if other != index:
            (leaks if file.splits[other] != file.splits[index] else twins).append(index)
    yield verdict(leaks, "leaks", "no trajectory is in two splits", "also in another split", "wrong")
    if twins:
        yield verdict(twins, "twins", "", "identical to an earlier one of the same split", "doubtful")


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
