"""From minutes to epochs, before a run: steps of its start, middle and end are timed, and what comes of it is written down."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from calm_pde.bench.measured.clock import clock
from calm_pde.bench.runs.trials import Length, Trial
from calm_pde.config import Config, differences
from calm_pde.errors import CalmError
from calm_pde.files.folders import replace_file
from calm_pde.threads import threads
from calm_pde.train.config import Recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show
from calm_pde.train.stages import Span

FEWEST_EPOCHS = 20
"""Of a stage: the curriculum moves by epochs, so short trainings get shorter epochs."""
VALIDATIONS = 12
_PROBE_EPOCHS = 60  # of the training that is only timed; no more than where start, middle and end are depends on it
_REPEATS = 3


class Probe(Config):
    """Seconds of a step of one epoch; `share` of its stage is done before it."""

    stage: str | None
    share: float
    seconds: float


class Allowance(Config):
    """What a trial became: a recipe with its length. A campaign writes it once, and every start of the run reads it."""

    asked: Trial
    recipe: Recipe
    steps: int
    seconds_per_step: float
    """Mean over the schedule, with reading the data and without validation."""
    validation_seconds: float
    probes: tuple[Probe, ...]


def allowance_of(trial: Trial, path: Path) -> Allowance:
    """The allowance that stands in a file, which is written first where there is none."""
    found = written_allowance(trial, path)
    if found is None:
        found = allowance(trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, found.model_dump_json(indent=1).encode())
    return found


def written_allowance(trial: Trial, path: Path) -> Allowance | None:
    """What stands in the file of a trial's allowance, if there is one; that of other settings is refused."""
    if not path.exists():
        return None
    found = Allowance.model_validate_json(path.read_bytes())
    changed = differences(found.asked.model_dump(mode="json"), trial.model_dump(mode="json"))
    if changed:
        listed = "; ".join(f"{name}: {old!r} then, {new!r} now" for name, old, new in changed)
        raise CalmError(f"{path}: this run was begun with other settings ({listed}). Name another folder with --out.")
    return found


def allowance(trial: Trial) -> Allowance:
    """Times a few steps on the real data and chooses the length of the training."""
    recipe = _with(trial.recipe, {"epochs": _PROBE_EPOCHS, "stages": ()})
    with tempfile.TemporaryDirectory() as folder, threads(recipe.train.threads):
        trainer = Trainer(recipe, Path(folder) / "run", Show(Console(quiet=True)), clock=clock(recipe.train.threads))
        probes = [probe for span in trainer.schedule.spans for probe in _probes(trainer, span)]
        validation = _seconds_of_validation(trainer)
        stages = [_mean_seconds(trainer, span, probes) for span in trainer.schedule.spans]
        whole = trainer.epoch_steps
    steps = stage_steps(trial.length, stages, validation)
    recipe = _with(trial.recipe, _settings(steps, whole) if steps else {})
    if trial.length.iterations is not None:
        recipe = _with(trial.recipe, {"epochs": math.ceil(trial.length.iterations / whole)})
    counts = _stage_epochs(recipe, len(stages))
    per_epoch = min(whole, recipe.train.batches_per_epoch or whole)
    total = sum(count * seconds for count, seconds in zip(counts, stages, strict=True)) / sum(counts)
    return Allowance(
        asked=trial,
        recipe=recipe,
        steps=per_epoch * recipe.train.epochs,
        seconds_per_step=total,
        validation_seconds=validation,
        probes=tuple(probes),
    )


def stage_steps(length: Length, seconds: Sequence[float], validation: float) -> list[int]:
    """Steps of each stage, from the seconds that one takes: the same time for each stage, and at least `fewest_steps` in all.

    Nothing where the recipe's epochs count.
    """
    count = len(seconds)
    if length.steps is not None:
        return [max(1, math.ceil(length.steps / count))] * count
    if length.minutes is None:
        return []
    time_left = max(0.0, 60 * length.minutes - VALIDATIONS * validation)
    return [max(math.ceil(length.fewest_steps / count), 1, math.floor(time_left / count / each)) for each in seconds]


def epochs_of(steps: Sequence[int], whole: int) -> tuple[list[int], int]:
    """Epochs of each stage and batches of an epoch, that give at least so many steps.

    Args:
        whole: batches of an epoch that shows all trajectories; shorter ones leave the shortest stage 20 epochs.
    """
    per_epoch = min(whole, max(1, min(steps) // FEWEST_EPOCHS))
    return [math.ceil(count / per_epoch) for count in steps], per_epoch


def _settings(steps: list[int], whole: int) -> dict[str, object]:
    """The settings of a training of so many steps."""
    counts, per_epoch = epochs_of(steps, whole)
    every = max(1, counts[-1] // VALIDATIONS)
    return {
        "epochs": sum(counts),
        "stages": tuple(float(count) for count in counts) if len(counts) > 1 else (),
        "batches_per_epoch": None if per_epoch == whole else per_epoch,
        "validate_every": every,
        "save_epochs": every,
    }


def _stage_epochs(recipe: Recipe, count: int) -> list[float]:
    shares = recipe.train.stages or (1.0,) * count
    return [recipe.train.epochs * share / sum(shares) for share in shares]


def _probes(trainer: Trainer, span: Span) -> list[Probe]:
    epochs = (span.begin, span.begin + span.epochs // 2, span.end - 1)
    stage = span.stage.name if span.stage else None
    return [
        Probe(stage=stage, share=(epoch - span.begin) / max(1, span.epochs - 1), seconds=_seconds_of_step(trainer, epoch))
        for epoch in epochs
    ]


def _seconds_of_step(trainer: Trainer, epoch: int) -> float:
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


def _seconds_of_validation(trainer: Trainer) -> float:
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


def _with(recipe: Recipe, changes: dict[str, object]) -> Recipe:
    return recipe.model_copy(update={"train": recipe.train.model_copy(update=changes)})
