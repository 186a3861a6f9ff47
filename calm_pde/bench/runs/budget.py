"""From minutes to epochs, before a run: steps of its start, middle and end are timed, and what comes of it is written down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from calm_pde.bench.measured.clock import clock
from calm_pde.bench.runs.trials import Length, Trial
from calm_pde.config import Config, differences
from calm_pde.errors import CalmError
from calm_pde.files.folders import replace_file
from calm_pde.train.config import Recipe
from calm_pde.train.length.probes import Probe, pace
from calm_pde.train.length.steps import length_settings, steps_within


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
    found = pace(trial.recipe, clock(trial.recipe.train.threads))
    steps, whole = stage_steps(trial.length, found.stages, found.validation), found.epoch_steps
    recipe = _with(trial.recipe, length_settings(steps, whole) if steps else {})
    if trial.length.iterations is not None:
        recipe = _with(trial.recipe, {"epochs": math.ceil(trial.length.iterations / whole)})
    counts = _stage_epochs(recipe, len(found.stages))
    per_epoch = min(whole, recipe.train.batches_per_epoch or whole)
    total = sum(count * seconds for count, seconds in zip(counts, found.stages, strict=True)) / sum(counts)
    return Allowance(
        asked=trial,
        recipe=recipe,
        steps=per_epoch * recipe.train.epochs,
        seconds_per_step=total,
        validation_seconds=found.validation,
        probes=found.probes,
    )


def stage_steps(length: Length, seconds: Sequence[float], validation: float) -> list[int]:
    """Steps of each stage, from the seconds that one takes; nothing where the recipe's epochs count."""
    if length.steps is not None:
        return [max(1, math.ceil(length.steps / len(seconds)))] * len(seconds)
    if length.minutes is None:
        return []
    return steps_within(length.minutes, seconds, validation, length.fewest_steps)


def _stage_epochs(recipe: Recipe, count: int) -> list[float]:
    shares = recipe.train.stages or (1.0,) * count
    return [recipe.train.epochs * share / sum(shares) for share in shares]


def _with(recipe: Recipe, changes: dict[str, object]) -> Recipe:
    return recipe.model_copy(update={"train": recipe.train.model_copy(update=changes)})
