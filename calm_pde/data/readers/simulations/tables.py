"""Tables beside the files of simulations: `samples.csv` with a row per sample, `signals.csv` with a row per time."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from calm_pde.config import suggestion
from calm_pde.errors import FileError
from calm_pde.records.trajectory import SPLITS, Split

_HEADING = re.compile(r"(?P<name>.*?)\s*(?:\[(?P<unit>.*)\])?\s*")
_SAMPLE, _SPLIT = "sample", "split"


@dataclass(frozen=True)
class SampleTable:
    """What `samples.csv` says: the samples in its order, a number of each per parameter, and their parts where it tells.

    Args:
        parameters: (sample, parameter).
        split: of each sample; empty where the table has no such column.
    """

    samples: tuple[str, ...]
    names: tuple[str, ...]
    parameters: np.ndarray
    units: dict[str, str] = field(default_factory=dict)
    split: tuple[Split, ...] = ()


@dataclass(frozen=True)
class SignalTable:
    """What a `signals.csv` says: knots (knot,) and numbers (knot, signal), with names and units."""

    names: tuple[str, ...]
    times: np.ndarray
    values: np.ndarray
    units: dict[str, str]


def read_samples(path: Path) -> SampleTable:
    """The table of a folder's samples: a column `sample`, and one per parameter, which may carry its unit as `power [W]`."""
    headings, rows = _rows(path)
    names, units = _named(path, headings)
    if _SAMPLE not in names:
        fix = f"Its first line must name one. {suggestion(_SAMPLE, list(names))}"
        raise FileError(path, "is missing", part=f"column {_SAMPLE!r}", fix=fix)
    own = names.index(_SAMPLE)
    samples = tuple(row[own] for row in rows)
    twice = sorted({sample for sample in samples if samples.count(sample) > 1})
    if twice or not samples:
        problem = f"names {', '.join(twice)} more than once" if twice else "names no sample"
        raise FileError(path, problem, fix="Give every sample a row of its own.")
    places = [place for place, name in enumerate(names) if name not in (_SAMPLE, _SPLIT)]
    numbers = [[_number(path, line, headings[place], row[place]) for place in places] for line, row in enumerate(rows, 2)]
    split: list[Split] = []
    if _SPLIT in names:
        split = [_part(path, line, row[names.index(_SPLIT)]) for line, row in enumerate(rows, 2)]
    return SampleTable(
        samples=samples,
        names=tuple(names[place] for place in places),
        parameters=np.array(numbers, dtype=np.float64).reshape(len(rows), len(places)),
        units=units,
        split=tuple(split),
    )


def read_signals(path: Path) -> SignalTable:
    """Known functions of time of one sample: the first column is the time, each other one a signal, linear between its rows."""
    headings, rows = _rows(path)
    names, units = _named(path, headings)
    if len(names) < 2 or not rows:
        raise FileError(path, "expected a column of times, another for each signal, and rows", fix="Or remove the file.")
    numbers = [
        [_number(path, line, heading, entry) for heading, entry in zip(headings, row, strict=True)]
        for line, row in enumerate(rows, 2)
    ]
    table = np.array(numbers, dtype=np.float64)
    late = np.flatnonzero(np.diff(table[:, 0]) <= 0)
    if len(late):
        fix = "Sort the rows by time, and give one row per time."
        raise FileError(path, "does not come later than the one before", part=f"time in line {late[0] + 3}", fix=fix)
    return SignalTable(names[1:], table[:, 0], table[:, 1:], {name: unit for name, unit in units.items() if name in names[1:]})


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    """The headings, and the rows as they are written; separated by commas, or by semicolons or tabs where the first line is."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(path, f"byte {error.start} is not UTF-8", fix="Save the table as UTF-8 text.") from None
    except OSError as error:
        raise FileError(path, f"cannot be read ({error})") from None
    first = text.partition("\n")[0]
    between = next((mark for mark in ",;\t" if mark in first), ",")
    try:
        found = [[entry.strip() for entry in row] for row in csv.reader(text.splitlines(), delimiter=between)]
    except csv.Error as error:
        raise FileError(path, f"is no table of text ({error})", fix="Save it as CSV.") from None
    found = [row for row in found if any(row)]
    if not found:
        raise FileError(path, "is empty", fix="Give a line of names and then a line per row.")
    for line, row in enumerate(found[1:], 2):
        if len(row) != len(found[0]):
            problem = f"has {len(row)} entries, and the first line has {len(found[0])}"
            raise FileError(path, problem, part=f"line {line}", fix="Give an entry for every column.")
    return found[0], found[1:]


def _named(path: Path, headings: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Names and units of headings like `power [W]`."""
    names, units = [], {}
    for heading in headings:
        name, unit = named_unit(heading)
        if not name or name in names:
            problem = "is there twice" if name else "has no name"
            raise FileError(path, problem, part=f"column {heading!r}", fix="Give every column a name of its own.")
        names.append(name)
        if unit:
            units[name] = unit
    return tuple(names), units


def named_unit(heading: str) -> tuple[str, str]:
    """`power [W]` ─▶ power and W; the unit is empty where there is none."""
    found = _HEADING.fullmatch(heading)
    return (found["name"].strip(), (found["unit"] or "").strip()) if found else (heading.strip(), "")


def _number(path: Path, line: int, heading: str, entry: str) -> float:
    try:
        found = float(entry)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        fix = "Every column but `sample` and `split` holds numbers, with a decimal point."
        raise FileError(path, f"expected a finite number, got {entry!r}", part=f"column {heading!r}, line {line}", fix=fix)
    return found


def _part(path: Path, line: int, entry: str) -> Split:
    for part in SPLITS:
        if entry == part:
            return part
    raise FileError(path, f"expected {', '.join(SPLITS)}, got {entry!r}", part=f"column {_SPLIT!r}, line {line}")
