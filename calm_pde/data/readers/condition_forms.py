"""The forms in which users give conditions: parameters and signals by name, units by name, and what is prescribed where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from calm_pde.config import suggestion
from calm_pde.data.readers.array_forms import numeric
from calm_pde.errors import InputError
from calm_pde.records.description import Description, Field, Prescribed
from calm_pde.records.signals import knot_problem

Table = tuple[Sequence[np.ndarray], Sequence[np.ndarray]]
"""Of each sample the knots (knot,) and the signals (knot, signal)."""


def parameter_table(parameters: Any, names: Sequence[str], count: int) -> tuple[np.ndarray | None, Sequence[str]]:
    """(sample, parameter) and the names; a dictionary {name: (sample,)} brings its own. None where there are no parameters."""
    if isinstance(parameters, Mapping):
        if names:
            fix = "Leave one of them out."
            raise InputError("parameter_names", expected="none beside a dictionary of parameters", got=str(names), fix=fix)
        columns = {str(name): numeric(f"parameters[{name!r}]", column) for name, column in parameters.items()}
        for name, column in columns.items():
            if column.shape != (count,):
                raise _unfit_parameters(f"parameters[{name!r}]", f"({count},)", column)
        return np.stack(list(columns.values()), axis=-1) if columns else None, tuple(columns)
    table = numeric("parameters", parameters)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != count:
        raise _unfit_parameters("parameters", f"(sample, parameter) with {count} samples", table)
    return table if table.shape[1] or names else None, names


def _unfit_parameters(name: str, expected: str, values: np.ndarray) -> InputError:
    return InputError(name, expected=expected, got=f"shape {values.shape}", fix="Give one number per sample and parameter.")


def signal_table(signals: Any, times: np.ndarray, count: int) -> tuple[Table, tuple[str, ...]] | None:
    """Signals by name, {name: values} at the frames or {name: (times, values)} at knots of their own.

    Values are (sample, knot), one array (knot,) per sample, or (knot,) where all samples share them; times (knot,), or one such
    array per sample. The signals of a sample are told at the knots of all of them, which changes none: they are linear between.
    """
    if not isinstance(signals, Mapping):
        got = type(signals).__name__
        raise InputError(
            "signals", expected="a dictionary {name: values or (times, values)}", got=got, fix="Name each of them."
        )
    each = {str(name): list(_lines(f"signals[{str(name)!r}]", given, times, count)) for name, given in signals.items()}
    if not each:
        return None
    joined = [at_common_knots([lines[sample] for lines in each.values()]) for sample in range(count)]
    return ([knots for knots, _ in joined], [values for _, values in joined]), tuple(each)


def _lines(name: str, given: Any, times: np.ndarray, count: int) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Of each sample the knots and the values of one signal."""
    own = isinstance(given, tuple) and len(given) == 2
    knots, values = given if own else (times, given)
    all_knots = _rows(f"{name}, times", knots, count)
    all_values = _rows(name, values, count)
    for sample, (places, line) in enumerate(zip(all_knots, all_values, strict=True)):
        if places.shape != line.shape or line.ndim != 1:
            raise InputError(
                name,
                expected=f"one number per {'knot' if own else 'frame'}, {len(places)} of them",
                got=f"shape {line.shape} in sample {sample}",
                fix="Give values at the frames, (sample, time), or (times, values) with knots of their own.",
            )
        problem = knot_problem(places, times)
        if problem:
            fix = "Sort them, and tell the signal from the first frame to the last."
            raise InputError(f"{name}, times of sample {sample}", expected=problem[0], got=problem[1], fix=fix)
        yield places.astype(np.float64), line.astype(np.float64)


def _rows(name: str, given: Any, count: int) -> list[np.ndarray]:
    """One array (knot,) per sample; one for all where there is one axis."""
    if isinstance(given, list | tuple) and len(given) and np.ndim(given[0]) > 0:
        rows = [numeric(f"{name}[{place}]", row) for place, row in enumerate(given)]
    else:
        values = numeric(name, given)
        rows = [values] * count if values.ndim == 1 else list(values) if values.ndim else [values]
    if len(rows) != count:
        fix = "Give one line for each sample, or one line for all."
        raise InputError(name, expected=f"one line per sample, {count}", got=str(len(rows)), fix=fix)
    return rows


def at_common_knots(lines: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The knots of all signals of a sample, where all are known, and every signal there."""
    knots = lines[0][0]
    if any(not np.array_equal(places, knots) for places, _ in lines):
        knots = np.unique(np.concatenate([places for places, _ in lines]))
        first, last = max(places[0] for places, _ in lines), min(places[-1] for places, _ in lines)
        knots = knots[(knots >= first) & (knots <= last)]
    return knots, np.stack([np.interp(knots, places, values) for places, values in lines], axis=-1)


def units_by_name(units: Sequence[str] | Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """{name: unit} of what has the names; a mere sequence is of the fields, and none of these."""
    if not isinstance(units, Mapping):
        return {}
    for name in units:
        if name not in names:
            raise InputError("units", expected="names of the data", got=repr(name), fix=suggestion(str(name), list(names)))
    return {str(name): str(unit) for name, unit in units.items()}


def given_prescribed(prescribed: Any, fields: Sequence[Field], node_types: Mapping[int, str]) -> tuple[Prescribed, ...]:
    """{field: node types}, each by code or by name; no node types where a field is known everywhere."""
    names, found = [field.name for field in fields], []
    if not isinstance(prescribed, Mapping):
        fix = f"{{{names[0]!r}: []}} prescribes {names[0]} everywhere."
        raise InputError("prescribed", expected="{field: node types}", got=type(prescribed).__name__, fix=fix)
    for name, given in prescribed.items():
        if name not in names:
            raise InputError("prescribed", expected="names of fields", got=repr(name), fix=suggestion(str(name), names))
        listed = [given] if isinstance(given, str | int | np.integer) else list(given)
        codes = tuple(_code(name, kind, node_types) for kind in listed)
        found.append(Prescribed(field=name, node_types=codes))
    return tuple(found)


def _code(field: str, kind: Any, node_types: Mapping[int, str]) -> int:
    if isinstance(kind, str):
        found = [code for code, name in node_types.items() if name == kind]
    else:
        found = [int(kind)] if kind in node_types else []
    if not found:
        known = ", ".join(f"{code} ({name})" for code, name in node_types.items()) or "none"
        raise InputError(f"prescribed[{field!r}]", expected="node types of the data", got=repr(kind), fix=f"There are {known}.")
    return found[0]


def check_names(description: Description) -> None:
    """No two of features, parameters and signals have one name: they are told apart by it."""
    seen: set[str] = set()
    for name in (*(field.name for field in description.features), *description.parameters, *description.signals):
        if name in seen:
            expected = "different names of all parameters, signals and features"
            raise InputError("names", expected=expected, got=f"{name!r} twice", fix="Rename one of them.")
        seen.add(name)
