"""The times of frames: what files tell, or what the user says; and that all samples agree."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from calm_pde.data.readers.simulations.frames import Choice, Look, time_value
from calm_pde.data.readers.simulations.process import ReadingProcess
from calm_pde.errors import FileError

_ROUNDING = 1e-3  # of a step: what the digits in the names of folders and in files leave


class Times(NamedTuple):
    """Physical times (time,) of all samples, and where they are from."""

    values: np.ndarray
    told: bool
    """By the files, so that those of all samples are compared."""

    @property
    def counted(self) -> bool:
        """0, 1, 2, …, since nobody tells."""
        return not self.told and np.array_equal(self.values, np.arange(len(self.values)))


def times_of(process: ReadingProcess, first: Look, choice: Choice, step: float | None) -> Times:
    """Those of the first sample, which hold for all."""
    count = len(first.frames)
    if step is not None:
        return Times(step * np.arange(count, dtype=np.float64), False)
    known = [frame.time for frame in first.frames]
    if None in known:
        known = [time_value(process, first, place, choice) for place in range(count)] if first.time is not None else None
    if known is None:
        return Times(np.arange(count, dtype=np.float64), False)
    if None in known:
        place = known.index(None)
        raise FileError(first.frames[place].path, "tells no time", part=first.part(place), fix="Or give --time-step.")
    times = np.array(known, dtype=np.float64)
    wrong = np.flatnonzero(~(np.diff(times) > 0))
    if len(wrong) or not np.isfinite(times).all():
        place = int(wrong[0]) + 1 if len(wrong) else 0
        problem = f"its time, {times[place]:g}, is not later than that of the frame before, {times[place - 1]:g}"
        raise FileError(first.frames[place].path, problem, part=first.part(place), fix="Check the times, or give --time-step.")
    return Times(times, True)


def check_time(path: Path, part: str, time: float | None, times: Times, place: int) -> None:
    """A frame is at the time that the first sample has there."""
    if not times.told:
        return
    room = _ROUNDING * np.diff(times.values).min() if len(times.values) > 1 else np.inf
    if time is None or not abs(time - times.values[place]) <= room:
        here = "tells no time" if time is None else f"is at time {time:g}"
        fix = "All samples need the same times; take out what is too much, or interpolate."
        raise FileError(path, f"{here}, and the first sample's at {times.values[place]:g}", part=part, fix=fix)
