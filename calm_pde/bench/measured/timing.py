"""Times of several programs, taken in turns, so that a busy moment of the machine meets them all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


def interleaved(
    programs: Mapping[str, Callable[[], Any]], repeats: int = 10, told: Callable[[int, int], None] | None = None
) -> dict[str, list[float]]:
    """Seconds of each program, taken in turns after one warm-up each.

    Args:
        told: called with the number of calls done and their total.
    """
    times: dict[str, list[float]] = {name: [] for name in programs}
    total, done = len(programs) * (repeats + 1), 0
    for turn in range(repeats + 1):
        for name, program in programs.items():
            start = time.perf_counter()
            program()
            if turn:
                times[name].append(time.perf_counter() - start)
            done += 1
            if told is not None:
                told(done, total)
    return times
