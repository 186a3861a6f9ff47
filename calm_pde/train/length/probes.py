"""What the steps of a training take: a few of its start, middle and end are timed on the real data."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from calm_pde.config import Config
from calm_pde.threads import threads
from calm_pde.train.config import Recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show
from calm_pde.train.stages import Span

_EPOCHS = 60  # of the training that is only timed; no more than where start, middle and end are depends on it
_REPEATS = 3


class Probe(Config):
    """Seconds of a step of one epoch; `share` of its stage is done before it."""

    stage: str | None
    share: float
    seconds: float


class Pace(NamedTuple):
    """What was found of a recipe.

    Args:
        stages: mean seconds of a step over each stage, with reading the data and without validation.
        validation: seconds of one validation.
        epoch_steps: of an epoch that shows all trajectories.
    """

    probes: tuple[Probe, ...]
    stages: tuple[float, ...]
    validation: float
    epoch_steps: int


def pace(recipe: Recipe, clock: Callable[[], float] = time.perf_counter) -> Pace:
    """Times a few steps on the real data, in a folder that goes again."""
    short = recipe.model_copy(update={"train": recipe.train.model_copy(update={"epochs": _EPOCHS, "stages": ()})})
    with tempfile.TemporaryDirectory() as folder, threads(recipe.train.threads):
        trainer = Trainer(short, Path(folder) / "run", Show(Console(quiet=True)), clock=clock)
        probes = [probe for span in trainer.schedule.spans for probe in _probes(trainer, span)]
        validation = seconds_of_validation(trainer)
        stages = [_mean_seconds(trainer, span, probes) for span in trainer.schedule.spans]
        return Pace(tuple(probes), tuple(stages), validation, trainer.epoch_steps)


def _probes(trainer: Trainer, span: Span) -> list[Probe]:
    epochs = (span.begin, span.begin + span.epochs // 2, span.end - 1)
    stage = span.stage.name if span.stage else None
    return [
        Probe(stage=stage, share=(epoch - span.begin) / max(1, span.epochs - 1), seconds=seconds_of_step(trainer, epoch))
        for epoch in epochs
    ]


def seconds_of_step(trainer: Trainer, epoch: int) -> float:
    """The median of a few steps of an epoch, reading the data included; one more before them is not counted."""
    trainer.start_at(epoch)
    groups = trainer.groups(epoch)
    taken = []
    for turn in range(_REPEATS + 1):
        start = trainer.clock()
        for batch, weight in trainer.batches([groups[turn % len(groups)]]):
            trainer.step(batch, weight)
        taken.append(trainer.clock() - start)
    return statistics.median(taken[1:])


def seconds_of_validation(trainer: Trainer) -> float:
    if trainer.held is None:
        return 0.0
    start = trainer.clock()
    trainer.validate()
    return trainer.clock() - start


def _mean_seconds(trainer: Trainer, span: Span, probes: list[Probe]) -> float:
    """Of a step over a stage: between the three probes it follows the number of frames that a model feeds itself."""
    stage = span.stage.name if span.stage else None
    taken = [probe.seconds for probe in probes if probe.stage == stage]
    places = (span.begin, span.begin + span.epochs // 2, span.end - 1)
    known: dict[int, list[float]] = {}
    for place, seconds in zip(places, taken, strict=True):
        known.setdefault(trainer.schedule.self_fed(place), []).append(seconds)
    fed = sorted(known)
    middle = [statistics.median(known[count]) for count in fed]
    return float(np.mean(np.interp([trainer.schedule.self_fed(epoch) for epoch in range(span.begin, span.end)], fed, middle)))
