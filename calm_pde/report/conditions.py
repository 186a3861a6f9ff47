"""What the samples of a report had beside their first frame: parameters, signals, and fields that are prescribed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from calm_pde.records.description import Description, Prescribed
from calm_pde.records.trajectory import Trajectory
from calm_pde.report.findings import Findings, Rank

_COLUMNS = 8  # of a table
_DIGITS = 9


class Condition(NamedTuple):
    """A parameter or a signal of the data.

    Args:
        place: of its values in a trajectory.
        told: whether the model is given it.
    """

    kind: Literal["parameters", "signals"]
    name: str
    unit: str
    place: int
    told: bool

    @property
    def heading(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name

    def in_words(self, found: Trajectory) -> str:
        """The number of a trajectory, or the range of its signal."""
        values = np.atleast_2d(getattr(found, self.kind))[:, self.place]
        return f"{values[0]:.4g}" if self.kind == "parameters" else f"{values.min():.4g} … {values.max():.4g}"


def conditions(findings: Findings) -> list[Condition]:
    """Of the data file; those that the model is told come first."""
    file, told = findings.data.file.description, findings.surrogate.conditions
    found = [
        Condition(kind, name, file.units.get(name, ""), place, name in told[kind])
        for kind in ("parameters", "signals")
        for place, name in enumerate(file.conditions[kind])
    ]
    return sorted(found, key=lambda one: not one.told)


def conditions_content(findings: Findings) -> dict[str, Any] | None:
    """Names and units for the page, and what is prescribed; None where there is nothing of it."""
    names: dict[str, Any] = {"parameters": [], "signals": []}
    for one in conditions(findings):
        names[one.kind].append({"name": one.name, "unit": one.unit, "told": one.told})
    surrogate = findings.surrogate
    known = () if surrogate.task == "autoencoder" else surrogate.translator.prescribed
    found = names | {"prescribed": [_prescribed(one, surrogate.description) for one in known]}
    return found if any(found.values()) else None


def values_content(findings: Findings, trajectory: int) -> dict[str, Any]:
    """The numbers of one sample, in the order of the names; times as the page has them, from the first frame."""
    found = findings.data.file.trajectory(trajectory, slice(0, 1))
    chosen = conditions(findings)
    parameters = [_short(_of(found.parameters)[one.place]) for one in chosen if one.kind == "parameters"]
    lines = [[_short(value) for value in _of(found.signals)[:, one.place]] for one in chosen if one.kind == "signals"]
    times = [_short(time) for time in _of(found.signal_times) - findings.data.times[0]] if lines else []
    return {"parameters": parameters, "signals": {"times": times, "values": lines} if lines else None}


def conditions_table(findings: Findings, chosen: Sequence[tuple[int, Rank | None]]) -> list[dict[str, Any]]:
    """All samples beside one another: their parameters, and the ranges of their signals."""
    listed, file, rows = conditions(findings)[:_COLUMNS], findings.data.file, []
    for position, rank in chosen if listed else ():
        index = int(findings.data.indices[position])
        found = file.trajectory(index, slice(0, 1))
        rows.append([str(index), rank or "", *(one.in_words(found) for one in listed)])
    heads = [one.heading if one.told else f"{one.heading}, not told" for one in listed]
    title = "Conditions of the samples"
    return [{"title": title, "columns": ["trajectory", "", *heads], "rows": rows}] if rows else []


def _prescribed(known: Prescribed, data: Description) -> dict[str, str]:
    where = ", ".join(data.node_types.get(code) or f"node type {code}" for code in known.node_types)
    return {"field": known.field, "where": where or "all points"}


def _of(values: np.ndarray | None) -> np.ndarray:
    return np.empty((0,)) if values is None else np.asarray(values, dtype=np.float64)


def _short(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
