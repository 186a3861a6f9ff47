"""The learning rate of a step."""

from __future__ import annotations

import math
from typing import Literal

RateSchedule = Literal["cosine", "trapezoid", "one_cycle", "exponential", "constant"]


def learning_rate(
    step: int,
    num_steps: int,
    highest: float,
    schedule: RateSchedule,
    *,
    lowest: float = 0.0,
    warm_up: float = 0.0,
    fall: float = 0.4,
    rise: float = 0.3,
    rise_from: float = 25.0,
) -> float:
    """At a step 0 … num_steps − 1.

    Args:
        lowest: where cosine, trapezoid and exponential end.
        warm_up: the share of steps in which they rise, in a straight line from 0.
        fall: the share of steps in which trapezoid falls, in a straight line.
        rise: the share of steps in which one_cycle rises, from `highest/rise_from`; it ends at a 10⁴-th of that.
    """
    if schedule == "constant":
        return highest
    if schedule == "exponential":
        return highest * (lowest / highest) ** (step / num_steps)
    if schedule in ("cosine", "trapezoid"):
        risen = min(1.0, (step + 1) / (warm_up * num_steps)) if warm_up else 1.0
        if schedule == "cosine":
            return risen * _between(highest, lowest, step / num_steps)
        return risen * (lowest + (highest - lowest) * min(1.0, (num_steps - step) / (fall * num_steps)))
    rising = rise * num_steps
    if step < rising:
        return _between(highest / rise_from, highest, step / rising)
    return _between(highest, highest / (1e4 * rise_from), (step - rising) / (num_steps - rising))


def _between(start: float, end: float, share: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * share))
