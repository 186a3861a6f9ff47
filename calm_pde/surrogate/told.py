"""What a user tells a surrogate beside an initial state, by name: checked, and as a batch of one frame has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calm_pde.config import suggestion
from calm_pde.data.readers.condition_forms import at_common_knots
from calm_pde.data.statistics import ParameterStatistics, Statistics
from calm_pde.errors import InputError, TrainingRangeWarning, warn
from calm_pde.records.arrays import check_plain, check_undifferentiated, finite_numbers
from calm_pde.records.description import Description
from calm_pde.surrogate.translator import Translator

_SLACK = 0.05  # of the training range: how far a value may leave it without a warning
_ROUNDING = 1e-6  # of a value: what float32 may have done to one that is constant
_LATE = 1e-6  # of a frame: what rounding may put behind the last knot
_ALWAYS = 1e6  # frames for which a level signal is known, so that it cuts no other one short

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Told:
    """As it is given, physical; None where there is nothing of a kind. Everything may have a batch axis, or be for all samples.

    Args:
        parameters: {name: number}.
        signals: {name: values} at the frames of the training, or {name: (times, values)}, with times from the initial state.
        features: (point, feature), or {name: (point,)}.
        prescribed: {field: (time, point)} at the times that are asked.
    """

    parameters: Any = None
    signals: Any = None
    features: Any = None
    prescribed: Any = None

    @property
    def batched(self) -> bool:
        """Whether something has an axis of samples."""
        features = self.features.values() if isinstance(self.features, Mapping) else ()
        lines = [line[1] if _own_knots(line) else line for line in _values(self.signals)]
        found = any(np.ndim(value) > 0 for value in _values(self.parameters)) or any(np.ndim(line) > 1 for line in lines)
        found = (
            found
            or any(np.ndim(value) > 1 for value in features)
            or any(np.ndim(value) > 2 for value in _values(self.prescribed))
        )
        return found or (not isinstance(self.features, Mapping) and self.features is not None and np.ndim(self.features) > 2)

    @property
    def samples(self) -> dict[str, int]:
        """How many samples are told of, by what has an axis of them; all are arrays."""
        parts = {name: values for name, values in (self.parameters or {}).items() if np.ndim(values) > 0}
        lines = {name: line if _own_knots(line) else (line,) for name, line in (self.signals or {}).items()}
        parts |= {name: part for name, line in lines.items() for part in line if np.ndim(part) > 1}
        parts |= {name: values for name, values in (self.prescribed or {}).items() if np.ndim(values) > 2}
        parts |= {"features": self.features} if np.ndim(self.features) > 2 else {}
        return {name: len(values) for name, values in parts.items()}

    def of(self, place: int, count: int) -> Told:
        """What is told of one of several meshes, of which each has its own entry; a number or a line is for all of them."""
        lines = {} if self.signals is None else dict(_named("signals", self.signals))
        signals = {
            name: tuple(_entry(f"signals[{name!r}]", part, place, count, 1) for part in (line if _own_knots(line) else (line,)))
            for name, line in lines.items()
        }
        return Told(
            None if self.parameters is None else _entries("parameters", self.parameters, place, count, 0),
            None if self.signals is None else {name: line if len(line) == 2 else line[0] for name, line in signals.items()},
            None if self.features is None else _features_of(self.features, place, count),
            None if self.prescribed is None else _entries("prescribed", self.prescribed, place, count, 2),
        )


class Door:
    """Names, shapes and ranges of what is told are those of the training."""

    def __init__(self, description: Description, conditions: dict[str, tuple[str, ...]], translator: Translator) -> None:
        self.description, self.conditions, self.translator = description, conditions, translator

    def checked(self, told: Told, num_points: int, steps: Sequence[float]) -> Arrays:
        """The arrays of a batch, with as many rows as were told, one where that is for all samples.

        Args:
            steps: the times that are asked, in frames.
        """
        found: Arrays = {}
        last = steps[-1] if steps else 0.0
        found |= self._parameters(told.parameters)
        found |= self._signals(told.signals, last)
        found |= self._features(told.features, num_points)
        return found | self._prescribed(told.prescribed, num_points, max(1, len(steps)))

    def _parameters(self, given: Any) -> Arrays:
        names = self._names("parameters", given)
        if not names:
            return {}
        columns = [finite_numbers(f"parameters[{name!r}]", given[name]) for name in names]
        for name, column in zip(names, columns, strict=True):
            if column.ndim > 1:
                fix = "Give one number, or one for each sample."
                raise InputError(f"parameters[{name!r}]", expected="a number", got=f"shape {column.shape}", fix=fix)
        table = _stacked("parameters", [np.atleast_1d(column) for column in columns])
        known = self.translator.parameter_statistics
        for place, name in enumerate(names):
            positive = isinstance(known, ParameterStatistics) and known.logarithmic[place]
            if positive and (table[:, place] <= 0).any():
                fix = "It ranged over decades in training, and its logarithm was taken."
                got = f"{table[:, place].min():g}"
                raise InputError(f"parameters[{name!r}]", expected="a number > 0", got=got, fix=fix)
        warn_of_range("parameters", table, known)
        return {"parameters": table}

    def _signals(self, given: Any, last: float) -> Arrays:
        names = self._names("signals", given)
        if not names:
            return {}
        lines = [self._line(name, given[name], last) for name in names]
        count = _common("signals", [max(len(knots), len(values)) for knots, values in lines])
        rows = [
            at_common_knots([(knots[sample % len(knots)], values[sample % len(values)]) for knots, values in lines])
            for sample in range(count)
        ]
        most, spacing = max(len(knots) for knots, _ in rows), self.translator.spacing
        times, values = np.empty((count, most)), np.empty((count, most, len(names)))
        for sample, (knots, line) in enumerate(rows):
            more = most - len(knots)
            times[sample] = np.concatenate([knots / spacing, knots[-1] / spacing + np.arange(1, more + 1)])
            values[sample] = np.concatenate([line, line[-1:].repeat(more, axis=0)])
        warn_of_range("signals", values, self.translator.signal_statistics)
        return {"signals": values, "signal_times": times}

    def _line(self, name: str, given: Any, last: float) -> tuple[np.ndarray, np.ndarray]:
        """Knots and values of one signal, (1 or sample, knot) each, known from the state to the last time that is asked."""
        argument, spacing, frames = f"signals[{name!r}]", self.translator.spacing, self.description.times
        own = _own_knots(given)
        knots, values = (finite_numbers(argument, part) for part in (given if own else (frames - frames[0], given)))
        if values.ndim == 0:  # level
            knots = knots if own else np.array([0.0, max(_ALWAYS, last) * spacing])
            values = np.full(knots.shape[-1:], values)
        lengths = [np.atleast_1d(part).shape[-1] for part in (knots, values)]
        if knots.ndim not in (1, 2) or values.ndim not in (1, 2) or lengths[0] != lengths[1]:
            raise InputError(
                argument,
                expected=f"(times, values) with one value per time, or {len(frames)} values, one per frame of the training",
                got=f"shapes {knots.shape} and {values.shape}" if own else f"shape {values.shape}",
                fix="Times are physical, from the initial state; both may have a sample axis.",
            )
        knots, values = np.atleast_2d(knots), np.atleast_2d(values)
        if (np.diff(knots) <= 0).any():
            raise InputError(
                argument, expected="strictly increasing times", got="others", fix="Sort them, without repetitions."
            )
        first, end = float(knots[:, 0].max()), float(knots[:, -1].min())
        if first > _LATE * spacing or end < (last - _LATE * max(1.0, last)) * spacing:
            raise InputError(
                argument,
                expected=f"values from the initial state, time 0, to the last time that is asked, {last * spacing:g}",
                got=f"values from {first:g} to {end:g}",
                fix="Tell the signal over the whole time, or ask for fewer times: nothing is known of it beyond its knots.",
            )
        return knots, values

    def _features(self, given: Any, num_points: int) -> Arrays:
        names = self._names("features", given)
        if not names:
            return {}
        if isinstance(given, Mapping):
            columns = [finite_numbers(f"features[{name!r}]", given[name]) for name in names]
            for name, column in zip(names, columns, strict=True):
                if column.ndim not in (1, 2) or column.shape[-1] != num_points:
                    expected, got = f"({num_points},), a number per point", f"shape {column.shape}"
                    raise InputError(f"features[{name!r}]", expected=expected, got=got, fix="Or one such row per sample.")
            table = _stacked("features", [np.atleast_2d(column) for column in columns])
        else:
            table = finite_numbers("features", given)
        if table.ndim not in (2, 3) or table.shape[-2:] != (num_points, len(names)):
            raise InputError(
                "features",
                expected=f"shape (point, feature) = ({num_points}, {len(names)}) with {', '.join(names)}",
                got=f"shape {table.shape}",
                fix="Give one value per point and feature, in physical units.",
            )
        warn_of_range("features", table, self.translator.feature_statistics)
        return {"features": table if table.ndim == 3 else table[None]}

    def _prescribed(self, given: Any, num_points: int, count: int) -> Arrays:
        """(row, time, point, channel) at the times that are asked; what is not prescribed holds NaN."""
        names = tuple(dict.fromkeys(one.field for one in self.translator.prescribed))
        self._check_names("prescribed", names, given)
        if not names:
            return {}
        columns = []
        for name in names:
            check_plain(f"prescribed[{name!r}]", given[name])
            check_undifferentiated(f"prescribed[{name!r}]", given[name])
            line = np.asarray(given[name], dtype=np.float64)
            if line.ndim not in (2, 3) or line.shape[-2:] != (count, num_points):
                raise InputError(
                    f"prescribed[{name!r}]",
                    expected=f"shape (time, point) = ({count}, {num_points}), a value at each time that is asked",
                    got=f"shape {line.shape}",
                    fix="What stands at points where the field is not prescribed is not read.",
                )
            columns.append(line if line.ndim == 3 else line[None])
        rows = _common("prescribed", [len(column) for column in columns])
        channels = self.description.field_names
        found = np.full((rows, count, num_points, len(channels)), np.nan)
        for name, column in zip(names, columns, strict=True):
            found[..., channels.index(name)] = column
        return {"prescribed": found}

    def _names(self, kind: str, given: Any) -> tuple[str, ...]:
        """The names of a kind that the model is told, which are those that are given."""
        names = self.conditions[kind]
        if kind == "features" and given is not None and not isinstance(given, Mapping) and names:
            return names
        self._check_names(kind, names, given)
        return names

    def _check_names(self, kind: str, names: tuple[str, ...], given: Any) -> None:
        if given is None or (not names and isinstance(given, Mapping) and not given):
            if names:
                fix = f"Give {kind}={{{', '.join(f'{name!r}: …' for name in names)}}}."
                raise InputError(kind, expected=self._listed(names), got="none", fix=fix)
            return
        if not names:
            got = ", ".join(map(str, given)) if isinstance(given, Mapping) else "some"
            fix = f"Leave {kind} out; only a model that was trained with them can use them."
            raise InputError(kind, expected="none, since the surrogate was trained without", got=got, fix=fix)
        for name in _named(kind, given):
            if name not in names:
                raise InputError(kind, expected=self._listed(names), got=repr(name), fix=suggestion(str(name), list(names)))
        for name in names:
            if name not in given:
                raise InputError(kind, expected=self._listed(names), got=f"no {name!r}", fix=f"Give {name!r} too.")

    def _listed(self, names: tuple[str, ...]) -> str:
        units = self.description.units
        return ", ".join(f"{name} [{units[name]}]" if name in units else name for name in names)


def warn_of_range(kind: str, values: np.ndarray, known: Statistics | None) -> None:
    """Of each of the last axis that leaves what was seen in training, by name and numbers."""
    if known is None:
        return
    low, high = np.array(known.lowest), np.array(known.highest)
    room = _SLACK * (high - low) + _ROUNDING * np.maximum(np.abs(low), np.abs(high))
    rows, told = values.reshape(-1, values.shape[-1]), {}
    for place in np.flatnonzero(((rows < low - room) | (rows > high + room)).any(axis=0)):
        above = rows[:, place].max() > high[place] + room[place]
        far = rows[:, place].max() if above else rows[:, place].min()
        told[known.names[place]] = f"{far:g}, trained on {low[place]:g} to {high[place]:g}"
    if told:
        numbers = "; ".join(f"{name} = {words}" for name, words in told.items())
        warn(f"{kind}: {', '.join(told)} leaves the range seen in training: {numbers}.", TrainingRangeWarning)


def _named(kind: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        fix = f"Name each of them, as in {kind}={{'name': …}}."
        raise InputError(kind, expected="a dictionary {name: value}", got=type(given).__name__, fix=fix)
    return given


def _values(given: Any) -> list[Any]:
    return list(given.values()) if isinstance(given, Mapping) else []


def _own_knots(line: Any) -> bool:
    return isinstance(line, tuple) and len(line) == 2


def _common(name: str, counts: Sequence[int]) -> int:
    """How many samples are told of; what is for all of them counts as one."""
    found = sorted({count for count in counts if count != 1})
    if len(found) > 1:
        got = " and ".join(map(str, found))
        raise InputError(
            name, expected="as many samples in all of them", got=got, fix="Give one entry per sample, or one for all."
        )
    return found[0] if found else 1


def _stacked(name: str, columns: list[np.ndarray]) -> np.ndarray:
    """Columns (row, …) as one table (row, …, column); a column of one row is for all of them."""
    count = _common(name, [len(column) for column in columns])
    return np.stack([np.broadcast_to(column, (count, *column.shape[1:])) for column in columns], axis=-1)


def _entry(name: str, given: Any, place: int, count: int, axes: int) -> Any:
    """The entry of one of several meshes; what has no more than its own axes is for all of them."""
    found = 1 + np.ndim(given[0]) if isinstance(given, list) and given else np.ndim(given)  # rows may differ in length
    if found <= axes:
        return given
    if len(given) != count:
        fix = "Give one for each mesh, or one for all."
        raise InputError(name, expected=f"{count} entries, one per mesh", got=str(len(given)), fix=fix)
    return given[place]


def _entries(kind: str, given: Any, place: int, count: int, axes: int) -> dict[str, Any]:
    pairs = _named(kind, given).items()
    return {name: _entry(f"{kind}[{name!r}]", value, place, count, axes) for name, value in pairs}


def _features_of(given: Any, place: int, count: int) -> Any:
    if isinstance(given, Mapping):
        return _entries("features", given, place, count, 1)
    return _entry("features", given, place, count, 2)
