"""From minutes to steps, and from steps to epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

FEWEST_EPOCHS = 20
"""Of a stage: the curriculum moves by epochs, so short trainings get shorter epochs."""
VALIDATIONS = 12


def steps_within(minutes: float | int, seconds: Sequence[float], validation: float, fewest: int = 0) -> list[int]:
    """Steps of each stage, from the seconds that one takes: the same time for each stage, and at least `fewest` in all."""
    count = len(seconds)
    time_left = max(0.0, 60 * minutes - VALIDATIONS * validation)
    return [max(math.ceil(fewest / count), 1, math.floor(time_left / count / each)) for each in seconds]


def epochs_of(steps: Sequence[int], whole: int) -> tuple[list[int], int]:
    """Epochs of each stage and batches of an epoch, that give at least so many steps.

    Args:
        whole: batches of an epoch that shows all trajectories; shorter ones leave the shortest stage 20 epochs.
    """
    per_epoch = min(whole, max(1, min(steps) // FEWEST_EPOCHS))
    return [math.ceil(count / per_epoch) for count in steps], per_epoch


def length_settings(steps: Sequence[int], whole: int) -> dict[str, Any]:
    """The settings of a training of so many steps of each stage."""
    counts, per_epoch = epochs_of(steps, whole)
    every = max(1, counts[-1] // VALIDATIONS)
    return {
        "epochs": sum(counts),
        "stages": tuple(float(count) for count in counts) if len(counts) > 1 else (),
        "batches_per_epoch": None if per_epoch == whole else per_epoch,
        "validate_every": every,
        "save_epochs": every,
    }
