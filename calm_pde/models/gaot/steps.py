"""From which state a time is reached, and by a step of which length."""

from __future__ import annotations

import math
from typing import NamedTuple

_ROUNDING = 1e-5  # of a time: what a file may have done to whole frames


class Step(NamedTuple):
    """From a time over a length, in frames."""

    start: float
    length: float

    @property
    def end(self) -> float:
        return self.start + self.length


def steps_to(time: float, stride: int | None) -> list[Step]:
    """Whole strides from 0, and a shorter step at last where the time is between two of them; without stride, one step.

    So the way to a time depends on no other time that is asked.
    """
    if abs(time - round(time)) <= _ROUNDING * max(1.0, time):
        time = float(round(time))
    if stride is None:
        return [Step(0.0, time)]
    before = math.ceil(time / stride) - 1
    whole = [Step(float(number * stride), float(stride)) for number in range(before)]
    return [*whole, Step(float(before * stride), time - before * stride)]
