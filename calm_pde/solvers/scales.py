"""Settings that may differ from trajectory to trajectory: a number, or a range that each trajectory draws its own from."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import tyro
from pydantic import PlainSerializer, PlainValidator


@dataclass(frozen=True)
class LogRange:
    """Positive numbers from `low` to `high` whose logarithms are uniform; written low:high."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low!r}:{self.high!r}"

    def number(self, draw: np.random.Generator, name: str) -> float:
        """The number of the trajectory that a generator is for, by a stream of its own.

        The generator itself stays as it is, so that a range changes nothing else that it draws; a name has its own stream.
        """
        seed = draw.bit_generator.seed_seq
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, zlib.crc32(name.encode())))  # pyright: ignore[reportAttributeAccessIssue]
        low, high = math.log(self.low), math.log(self.high)
        found = math.exp(low + (high - low) * np.random.default_rng(own).uniform())
        return min(max(found, self.low), self.high)


def _scale(value: Any, least: str) -> float | LogRange:
    """What a user wrote: a number, two of them, or low:high."""
    parts = value.split(":") if isinstance(value, str) else value
    if isinstance(value, LogRange):
        parts = (value.low, value.high)
    numbers = [_number(part) for part in (parts if isinstance(parts, list | tuple) else [parts])]
    if len(numbers) == 1 and (numbers[0] > 0 or (numbers[0] == 0 and least == "at least 0")):
        return numbers[0]
    if len(numbers) == 2 and 0 < numbers[0] < numbers[1] < math.inf:
        return LogRange(*numbers)
    raise ValueError(f"expected a number {least}, or low:high with 0 < low < high, got {value!r}")


def _number(value: Any) -> float:
    """NaN where it is none: that is no number of any range."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def _written(value: float | LogRange) -> float | str:
    return str(value) if isinstance(value, LogRange) else value


def _type(least: str) -> tuple[Any, ...]:
    """How pydantic and the command line read and write it."""
    spec = tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="NUMBER|LOW:HIGH",
        instance_from_str=lambda words: _scale(words[0], least),
        is_instance=lambda value: isinstance(value, float | int | LogRange),
        str_from_instance=lambda value: [str(value)],
    )
    return PlainValidator(lambda value: _scale(value, least)), PlainSerializer(_written), spec


Scale = Annotated[float | LogRange, *_type("above 0")]
"""A positive number, or low:high: each trajectory then draws its own, uniform in its logarithm, as a parameter of it."""

ScaleOrZero = Annotated[float | LogRange, *_type("at least 0")]
"""The same for a number that may be 0."""
