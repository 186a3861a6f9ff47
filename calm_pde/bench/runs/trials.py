"""Trials: the runs of a suite, each with its whole recipe but for the length of the training."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from calm_pde.bench.runs.setups import Setup, setup, tiny, title
from calm_pde.bench.runs.suite import DataEntry, ModelEntry, RankingMetric, Suite
from calm_pde.config import Config, merged, suggestion
from calm_pde.errors import CalmError, ConfigError
from calm_pde.train.config import DataConfig, Recipe, load_recipe

TINY_STEPS = 20


class Length(Config):
    """How long a run is trained: so many minutes, steps or iterations of its setup, or the recipe's epochs without any."""

    minutes: float | None = None
    fewest_steps: int = 300
    steps: int | None = None
    iterations: int | None = None


class Trial(Config):
    """One run of a suite."""

    name: str
    """Of its folder."""
    data: str
    model: str
    title: str
    preset: str
    seed: int
    metric: RankingMetric
    recipe: Recipe
    length: Length


def trials(suite: Suite, out: Path, small: bool = False, steps: int | None = None) -> list[Trial]:
    """All runs, data set by data set.

    Args:
        out: the campaign's folder; tiny data are kept in it.
        small: tiny data, small presets, one seed and a few steps instead of what the suite says.
        steps: of every run, instead of minutes or epochs.
    """
    if steps is not None and steps < 1:
        raise CalmError(f"steps: expected at least 1, got {steps}.")
    found = []
    for data, entry in suite.data.items():
        for model, chosen in suite.models.items():
            if chosen.data and data not in chosen.data:
                continue
            for seed in suite.seeds[:1] if small else suite.seeds:
                found.append(_trial(suite, data, entry, model, chosen, seed, out, small, steps))
    names = [trial.name for trial in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"suite {suite.name}: two runs would share the folder {name}. Rename a model or a data set.")
    return found


def chosen(found: list[Trial], only: tuple[str, ...]) -> list[Trial]:
    """The runs of the models and data sets that are named; a name of each kind narrows the choice."""
    models, data = {trial.model for trial in found}, {trial.data for trial in found}
    for name in only:
        if name not in models | data:
            raise CalmError(f"only: there is no model or data set {name!r}. {suggestion(name, sorted(models | data))}")
    models, data = (names & set(only) or names for names in (models, data))
    return [trial for trial in found if trial.model in models and trial.data in data]


def _trial(
    suite: Suite,
    data: str,
    entry: DataEntry,
    model: str,
    chosen: ModelEntry,
    seed: int,
    out: Path,
    small: bool,
    steps: int | None,
) -> Trial:
    where = f"suite {suite.name}: models: {model} on {data}"
    try:
        base = setup(chosen.kind, entry.problem, "small" if small else suite.size, entry.recipe)
        changes = chosen.small if small and chosen.small is not None else chosen
        length = (
            Length(minutes=suite.minutes, fewest_steps=suite.fewest_steps)
            if suite.minutes
            else Length(iterations=base.iterations)
        )
        if small or steps or suite.steps:
            length = Length(steps=steps or (TINY_STEPS if small else suite.steps))
        name = _folder_name(f"{data}-{model}-seed{seed}")
        recipe = Recipe.model_validate(
            {
                "name": name,
                "data": _data(data, entry, out, small),
                "model": merged(base.model, changes.model),
                "train": _train(base, [suite.train, entry.train, changes.train], seed, small),
            }
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return Trial(
        name=name,
        data=data,
        model=model,
        title=chosen.title or (title(chosen.kind) if model == chosen.kind else model),
        preset=base.preset,
        seed=seed,
        metric=entry.metric,
        recipe=recipe,
        length=length,
    )


def _train(base: Setup, changes: list[dict[str, Any]], seed: int, small: bool) -> dict[str, Any]:
    found = base.train
    for change in changes:
        found = merged(found, change)
    tiny = {"batch_size": 4, "first_length": 3, "windows_per_trajectory": 1} if small else {}
    return found | tiny | {"seed": seed}


def _data(name: str, entry: DataEntry, out: Path, small: bool) -> dict[str, Any]:
    """The file of the entry, or that of CALM-PDE's recipe; with `small` one of the campaign's own."""
    if small:
        made = tiny(entry.problem).model_dump()
        made["problem"] |= entry.tiny
        return {"file": out / "data" / f"{_folder_name(name)}.h5", "generate": made, "fields": entry.fields}
    given = entry.model_dump(include=set(DataConfig.model_fields), exclude_unset=True)
    if entry.file is not None:
        return given
    return load_recipe(entry.recipe or entry.problem).data.model_dump(exclude_unset=True) | given


def _folder_name(text: str) -> str:
    """With letters, digits and a few signs alone, which every file system takes."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("._") or "_"
