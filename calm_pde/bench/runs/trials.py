"""Trials: the runs of a suite, each with its whole recipe but for the length of the training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import model_serializer

from calm_pde.bench.runs.setups import Setup, setup, tiny, title
from calm_pde.bench.runs.suite import OWN, DataEntry, RankingMetric, Settings, Suite
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
    setting: str = ""
    """Of a suite with a search: the name of what is laid over the model's setup."""
    tested: bool = True
    """Whether it is evaluated on the test split at its end; a run of the search is not."""

    @model_serializer(mode="wrap")
    def _as_before(self, written: Callable[[Trial], dict[str, Any]]) -> dict[str, Any]:
        """Without what a search alone says, so that the files of campaigns without one are what they always were."""
        unsaid = {"setting": "", "tested": True}
        return {name: value for name, value in written(self).items() if name not in unsaid or value != unsaid[name]}


@dataclass(frozen=True)
class Variant:
    """What a run of a suite with a search has beside what the suite says of its model."""

    setting: str = ""
    settings: Settings = field(default_factory=dict)
    """Of training, over all others."""
    label: str = "seed{seed}"
    """Of the folder, behind data set and model."""
    tested: bool = True


_AS_IT_STANDS = Variant()


def with_own_settings() -> Variant:
    """A model as the suite has it, by which the strongest rivals are told."""
    return Variant(OWN, label=f"{OWN}-seed{{seed}}")


def searching(setting: str, settings: Settings) -> Variant:
    """A short run that is only validated."""
    return Variant(setting, settings, label="search-{setting}", tested=False)


def settled_on(setting: str, settings: Settings) -> Variant:
    """A run with what the search has chosen."""
    return Variant(setting, settings)


def trials(suite: Suite, out: Path, small: bool = False, steps: int | None = None) -> list[Trial]:
    """All runs, data set by data set.

    Args:
        out: the campaign's folder; tiny data are kept in it.
        small: tiny data, small presets, one seed and a few steps instead of what the suite says.
        steps: of every run, instead of minutes or epochs.
    """
    if steps is not None and steps < 1:
        raise CalmError(f"steps: expected at least 1, got {steps}.")
    seeds = suite.seeds[:1] if small else suite.seeds
    found = [trial(suite, data, model, seed, out, small, steps) for data, model in pairs(suite) for seed in seeds]
    refuse_twins(suite, found)
    return found


def pairs(suite: Suite) -> Iterator[tuple[str, str]]:
    """Data sets and models that meet, in the suite's order."""
    for data in suite.data:
        for model, entry in suite.models.items():
            if not entry.data or data in entry.data:
                yield data, model


def refuse_twins(suite: Suite, found: Sequence[Trial]) -> None:
    """Names of models, data sets and settings that become one folder are told of."""
    names = [trial.name for trial in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"suite {suite.name}: two runs would share the folder {name}. Rename a model, a data set or searched settings."
            )


def chosen(found: list[Trial], only: tuple[str, ...]) -> list[Trial]:
    """The runs of the models and data sets that are named; a name of each kind narrows the choice."""
    models, data = {trial.model for trial in found}, {trial.data for trial in found}
    for name in only:
        if name not in models | data:
            raise CalmError(f"only: there is no model or data set {name!r}. {suggestion(name, sorted(models | data))}")
    models, data = (names & set(only) or names for names in (models, data))
    return [trial for trial in found if trial.model in models and trial.data in data]


def trial(
    suite: Suite,
    data: str,
    model: str,
    seed: int,
    out: Path,
    small: bool = False,
    steps: int | None = None,
    variant: Variant = _AS_IT_STANDS,
) -> Trial:
    """The run of a model on a data set; the arguments are those of `trials`."""
    entry, given = suite.data[data], suite.models[model]
    where = f"suite {suite.name}: models: {model} on {data}" + (f", searched {variant.setting}" if not variant.tested else "")
    label = variant.label.format(seed=seed, setting=variant.setting)
    name = _folder_name(f"{data}-{model}-{label}")
    try:
        base = setup(given.kind, entry.problem, "small" if small else suite.size, entry.recipe, given.edition)
        changes = given.small if small and given.small is not None else given
        layers = [suite.train, entry.train, changes.train, variant.settings]
        recipe = Recipe.model_validate(
            {
                "name": name,
                "data": _data(data, entry, out, small),
                "model": merged(base.model, changes.model),
                "train": _train(base, layers, seed, small),
            }
        )
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return Trial(
        name=name,
        data=data,
        model=model,
        title=given.title or (title(given.kind) if model == given.kind else model),
        preset=base.preset,
        seed=seed,
        metric=entry.metric,
        recipe=recipe,
        length=_length(suite, base, small, steps, searching=not variant.tested),
        setting=variant.setting,
        tested=variant.tested,
    )


def _length(suite: Suite, base: Setup, small: bool, steps: int | None, searching: bool) -> Length:
    """Steps that are asked for count before all that a suite says."""
    told = suite.search if searching and suite.search is not None else suite
    if small or steps or told.steps:
        return Length(steps=steps or (TINY_STEPS if small else told.steps))
    if told.minutes:
        return Length(minutes=told.minutes, fewest_steps=suite.fewest_steps)
    return Length(iterations=base.iterations)


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
        file = out / "data" / f"{_folder_name(name)}.h5"
        taken = entry.model_dump(include={"fields", "conditions", "normalize_features"})
        return {"file": file, "generate": made, **taken}
    given = entry.model_dump(include=set(DataConfig.model_fields), exclude_unset=True)
    if entry.file is not None:
        return given | {"conditions": entry.conditions}
    return load_recipe(entry.recipe or entry.problem).data.model_dump(exclude_unset=True) | given


def _folder_name(text: str) -> str:
    """With letters, digits and a few signs alone, which every file system takes."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("._") or "_"
