"""Known functions of time beside the files of each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from calm_pde.data.readers.simulations.samples import SampleFiles
from calm_pde.data.readers.simulations.tables import SignalTable, read_signals
from calm_pde.errors import FileError
from calm_pde.records.signals import knot_problem

_ROUNDING = 1e-6  # of the time from the first frame to the last: what single precision in files leaves


def signals_of(samples: Sequence[SampleFiles]) -> list[SignalTable]:
    """Of every sample, in one order of names; none where no sample has any."""
    paths = [sample.signals for sample in samples]
    there = [path for path in paths if path is not None and path.is_file()]
    if not there:
        return []
    tables: list[SignalTable] = []
    for path in paths:
        if path is None or not path.is_file():
            problem = f"there is no such file, and {there[0]} is there"
            raise FileError(path, problem, fix="Give signals to every sample or to none.")
        tables.append(_alike(path, read_signals(path), tables[0] if tables else None, there[0]))
    return tables


def _alike(path: Path, table: SignalTable, first: SignalTable | None, told: Path) -> SignalTable:
    """With its signals in the order of the first sample's."""
    if first is None or table.names == first.names:
        wanted = table.names if first is None else first.names
    elif sorted(table.names) == sorted(first.names):
        wanted = first.names
    else:
        problem = f"has signals {', '.join(table.names)}, and {told} has {', '.join(first.names)}"
        raise FileError(path, problem, fix="All samples need the same signals.")
    if first is not None and table.units != first.units:
        raise FileError(path, f"has units {table.units}, and {told} has {first.units}", fix="All samples need the same units.")
    return replace(table, names=wanted, values=table.values[:, [table.names.index(name) for name in wanted]])


def fitted(samples: Sequence[SampleFiles], tables: Sequence[SignalTable], times: np.ndarray) -> list[SignalTable]:
    """Tables that are known from the first frame to the last; what they lack by rounding is made good."""
    found = []
    for sample, table in zip(samples, tables, strict=bool(tables)):
        knots, room = table.times.copy(), _ROUNDING * float(times[-1] - times[0])
        for end in (0, -1):
            if abs(knots[end] - times[end]) <= room:
                knots[end] = times[end]
        if problem := knot_problem(knots, times):
            raise FileError(sample.signals, f"expected {problem[0]}, got {problem[1]}", part="times")
        found.append(replace(table, times=knots))
    return found
