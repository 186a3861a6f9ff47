"""What of a data file matters for learning: conditions, what tells its trajectories apart, and how fast they change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calm_pde.data.finding import Finding, verdict
from calm_pde.records.description import Description
from calm_pde.records.signals import knot_problem
from calm_pde.records.trajectory import SPLITS, Trajectory

_SAME = 1e-6  # of the size of a field: first frames that differ by less are one
_COARSE = 1.0  # of the deviation of a field: who changes by more from frame to frame has forgotten the frame before
_FEW = 10  # training trajectories: with fewer, a model knows these and no others
_MOST = 12  # of a kind of condition are told one by one
_KINDS = {"parameters": "parameter", "signals": "signal", "features": "feature"}


class Learning:
    """What is learned of it while the trajectories pass by."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self.conditions = {kind: Spread(found) for kind, found in description.conditions.items() if found}
        self.knots: list[int] = []
        self.first: np.ndarray | None = None
        self.same = True
        self.sizes: set[int] = set()
        self.changes: list[np.ndarray] = []
        self.moving = np.zeros(len(description.fields), dtype=bool)
        self.fields = Spread(description.field_names)

    def add(self, index: int, trajectory: Trajectory) -> None:
        for kind, spread in self.conditions.items():
            spread.add(index, np.atleast_2d(getattr(trajectory, kind)))
        if trajectory.signal_times is not None and knot_problem(trajectory.signal_times, self.description.times):
            self.knots.append(index)
        self.sizes.add(trajectory.fields.shape[1])
        fields = trajectory.fields.astype(np.float64)
        if not np.isfinite(fields).all():
            return
        self.fields.add(index, fields.reshape(-1, fields.shape[-1]))
        self.same = self.same and self._as_before(fields[0])
        self.moving |= (fields != fields[:1]).any(axis=(0, 1))
        if len(fields) > 1:
            self.changes.append(np.square(np.diff(fields, axis=0)).mean(axis=(0, 1)))

    def _as_before(self, start: np.ndarray) -> bool:
        """Whether a first frame is that of the trajectories before; on other points only where it is constant."""
        if self.first is None:
            self.first = start
            return True
        room = _SAME * np.maximum(np.abs(start).max(axis=0), np.abs(self.first).max(axis=0))
        if start.shape == self.first.shape:
            return bool((np.abs(start - self.first) <= room).all())
        lower, upper = (np.array([getattr(one, name)(axis=0) for one in (start, self.first)]) for name in ("min", "max"))
        return bool((upper.max(axis=0) - lower.min(axis=0) <= room).all())

    def findings(self) -> Iterator[Finding]:
        for kind, spread in self.conditions.items():
            yield from spread.findings(_KINDS[kind], self.description)
        if self.description.signals:
            bad = "have knots that are not increasing or leave out some of the frames"
            yield verdict(self.knots, "knots", "all signals are known from the first frame to the last", bad, "wrong")
        yield from _prescribed(self.description)
        if not self.description.steady and self.changes:
            yield from self._starts()
            yield from self._still()
            yield from self._steps()

    def _starts(self) -> Iterator[Finding]:
        """Whether the first frames tell the trajectories apart, or what else does."""
        if not self.same or len(self.changes) < 2:
            return
        telling = [name for spread in self.conditions.values() for name in spread.varying]
        meshes = [] if self.description.shared_mesh else ["its mesh"]
        text = "the same in all trajectories"
        if telling:
            yield Finding("good", "frame 0", f"{text}; what tells them apart, and a model must be given: {', '.join(telling)}")
        elif meshes:
            yield Finding("doubtful", "frame 0", f"{text}, and nothing but the mesh tells a model which one it is to answer")
        else:
            fix = "give what differs as parameters, signals or features"
            yield Finding("doubtful", "frame 0", f"{text}, and nothing else tells a model which one it is to answer; {fix}")

    def _still(self) -> Iterator[Finding]:
        """Fields that are what they were at the start, in every trajectory: known beforehand, so nothing to predict."""
        given = {known.field for known in self.description.prescribed if not known.node_types}
        differ = self.fields.lowest < self.fields.highest
        names = zip(self.description.field_names, ~self.moving & differ, strict=True)
        for name in (name for name, still in names if still and name not in given):
            fix = "as a feature or a parameter it is given to a model; as a field it counts in every mean error"
            yield Finding("doubtful", f"{name} in time", f"never changes; {fix}")

    def _steps(self) -> Iterator[Finding]:
        """How much a field changes from frame to frame, beside how much it differs at all: the error of repeating a frame."""
        deviation, change = self.fields.deviation, np.sqrt(np.mean(self.changes, axis=0))
        there = deviation > 0
        if not there.any():
            return
        shares = change[there] / deviation[there]
        names = [name for name, known in zip(self.description.field_names, there, strict=True) if known]
        told = ", ".join(f"{name} {share:.2g}" for name, share in zip(names, shares, strict=True))
        text = f"change from frame to frame, in deviations: {told}"
        coarse = shares.max() > _COARSE
        fix = "; a frame tells little of the next: the time steps are too coarse for the dynamics, save more frames"
        yield Finding("doubtful" if coarse else "good", "steps", text + (fix if coarse else ""))


class Spread:
    """Of named numbers: their range over all trajectories, and whether they differ from one to another or within one."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.lowest, self.highest = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        self.sums, self.squares, self.count = np.zeros(len(names)), np.zeros(len(names)), 0
        self.first: np.ndarray | None = None
        self.differ = np.zeros(len(names), dtype=bool)
        self.broken: list[int] = []

    def add(self, index: int, rows: np.ndarray) -> None:
        """Of one trajectory, (…, name)."""
        if not np.isfinite(rows).all():
            self.broken.append(index)
            return
        self.lowest, self.highest = np.minimum(self.lowest, rows.min(axis=0)), np.maximum(self.highest, rows.max(axis=0))
        origin = rows[0] if self.first is None else self.first[0]
        self.sums += (rows - origin).sum(axis=0)
        self.squares += np.square(rows - origin).sum(axis=0)
        self.count += len(rows)
        self.first = rows if self.first is None else self.first
        same = rows.shape == self.first.shape
        self.differ |= (rows != self.first).any(axis=0) if same else True

    @property
    def deviation(self) -> np.ndarray:
        mean = self.sums / max(1, self.count)
        found = np.sqrt(np.maximum(self.squares / max(1, self.count) - np.square(mean), 0.0))
        return np.where(self.highest > self.lowest, found, 0.0)

    @property
    def varying(self) -> list[str]:
        """Those that differ from trajectory to trajectory."""
        ranges = self.highest > self.lowest
        return [name for name, known in zip(self.names, ranges & self.differ, strict=True) if known]

    def findings(self, kind: str, description: Description) -> Iterator[Finding]:
        yield verdict(self.broken, f"{kind}s", f"{len(self.names)}, all finite", "hold NaN or infinite numbers", "wrong")
        units = description.units | {field.name: field.unit for field in description.features if kind == "feature"}
        told = list(zip(self.names, self.lowest, self.highest, strict=True))
        if len(told) > _MOST:
            constant = [name for name, low, high in told if low == high]
            text = f"constant: {', '.join(constant)}: they tell a model nothing" if constant else "none is constant"
            yield Finding("doubtful" if constant else "good", f"{kind}s, {len(told)}", text)
            return
        for name, low, high in told:
            unit = f" {units[name]}" if units.get(name) else ""
            text = f"{low:.4g} … {high:.4g}{unit}"
            if low == high:
                yield Finding("doubtful", f"{kind} {name}", f"constant, {low:.6g}{unit} everywhere: it tells a model nothing")
            elif np.isfinite(low):
                same = "" if name in self.varying else ", the same in all trajectories"
                yield Finding("good", f"{kind} {name}", text + same)


def _prescribed(description: Description) -> Iterator[Finding]:
    """Fields and node types that are prescribed are those of the data."""
    for known in description.prescribed:
        subject, types = f"prescribed {known.field}", description.node_types
        if known.field not in description.field_names:
            yield Finding("wrong", subject, f"there is no such field; there are {', '.join(description.field_names)}")
        elif missing := [code for code in known.node_types if code not in types]:
            there = ", ".join(map(str, types)) or "none"
            yield Finding("wrong", subject, f"there are no node types {', '.join(map(str, missing))}; there are {there}")
        else:
            where = ", ".join(types[code] for code in known.node_types) or "everywhere"
            yield Finding("good", subject, f"given, not predicted: {where}")


def split_findings(sizes: dict[str, int]) -> Iterator[Finding]:
    """Which splits are empty or too small to tell anything."""
    text = ", ".join(f"{count} {split}" for split, count in sizes.items())
    empty, (train, *held) = [split for split, count in sizes.items() if not count], SPLITS
    doubts = [f"no {' and no '.join(empty)} part"] if empty else []
    if 0 < sizes[train] < _FEW:
        doubts.append(f"with fewer than {_FEW} training trajectories a model learns these, and no others")
    alone = [split for split in held if sizes[split] == 1]
    if alone:
        doubts.append(f"an error over a single {' or '.join(alone)} trajectory tells little")
    yield Finding("doubtful" if doubts else "good", "split", "; ".join([text, *doubts]))
