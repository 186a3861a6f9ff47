"""Suites: which models meet which data sets, for how long, and what the paper says about each pair."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from calm_pde.bench.runs.setups import Size, problems
from calm_pde.config import Config, Seed, suggestion, yaml_mapping, yaml_text
from calm_pde.errors import ConfigError
from calm_pde.metrics import ranking_metric
from calm_pde.metrics.relative_l2 import RelativeL2
from calm_pde.models import MODELS
from calm_pde.train.config import GenerateConfig, recipe_names

Settings = dict[str, Any]
OWN = "own"
"""How the settings that a model has without a search are called."""
_OF_ALL = ("reduction", "validation", "seed")
RankingMetric = Annotated[str, AfterValidator(ranking_metric)]


def _comparable(settings: dict[str, Settings]) -> dict[str, Settings]:
    """Searched settings by name, of which the smallest validation error chooses: all of them validate alike."""
    if not settings:
        raise ValueError("settings: expected at least one entry, as in {fast: {learning_rate: 3e-3}}")
    for name, changes in settings.items():
        if not name or name == OWN:
            raise ValueError(f"settings: {name!r} stands for the settings without a search; choose another name")
        for key in _OF_ALL:
            if key in changes:
                raise ValueError(f"settings: {name}: {key}: must be the same in all that are compared; say it in `train`")
    return settings


SearchedSettings = Annotated[dict[str, Settings], AfterValidator(_comparable)]
"""By name, each laid over the settings of training that a model has anyway."""


class Search(Config):
    """Short runs of settings of training, of which the smallest validation error chooses."""

    minutes: PositiveFloat | None = None
    """Of each run; its seed is the suite's first."""
    steps: PositiveInt | None = None
    """Instead of minutes."""
    settings: SearchedSettings
    strongest: PositiveInt | None = None
    """How many of the models that are not `ours` are searched on each data set: those with the smallest validation errors
    after a run with their own settings. All by default, without such runs."""

    @model_validator(mode="after")
    def _has_a_length(self) -> Search:
        if (self.minutes is None) == (self.steps is None):
            raise ValueError("minutes, steps: say one of them, how long each run of the search is")
        return self


class OwnSearch(Config):
    """What of the search is particular to a data set or to a model."""

    settings: SearchedSettings | None = None
    """Instead of the suite's; a model's instead of a data set's."""


class ModelSearch(OwnSearch):
    """`search: false` in a suite is a model that keeps its own settings."""

    wanted: bool = True

    @model_validator(mode="before")
    @classmethod
    def _of_a_word(cls, content: Any) -> Any:
        return {"wanted": content} if isinstance(content, bool) else content


class DataEntry(Config):
    """A data set: what its file is, and which problem's presets and settings of training fit it."""

    title: str = ""
    problem: str
    recipe: str | None = None
    """CALM-PDE's recipe, where it is not named as the problem; it also tells the file where none is given."""
    file: Path | None = None
    generate: GenerateConfig | None = None
    fields: tuple[str, ...] = ()
    frame_stride: PositiveInt = 1
    conditions: bool | tuple[str, ...] = False
    """What models are told of the parameters, signals and features of the file, see `DataConfig`; nothing in the paper."""
    normalize_features: Literal["channel", "point"] = "channel"
    """By what the features of a steady problem are normalized, see `DataConfig`."""
    metric: RankingMetric = RelativeL2.name
    """What models are compared by: one of `METRICS`; `frame` and `spacetime` (the paper's Burgers) stand for relative L2."""
    paper_unit: PositiveFloat = 1.0
    """What the paper's values of this data set are multiples of."""
    train: Settings = Field(default_factory=dict)
    """For all models on this data set."""
    search: OwnSearch = OwnSearch()
    tiny: Settings = Field(default_factory=dict)
    """What differs from the problem's smallest data with --small."""

    @model_validator(mode="after")
    def _is_known(self) -> DataEntry:
        if self.problem not in problems():
            raise ValueError(f"problem: there is no {self.problem!r}. {suggestion(self.problem, problems())}")
        if self.recipe is not None and self.recipe not in recipe_names():
            raise ValueError(f"recipe: there is no {self.recipe!r}. {suggestion(self.recipe, recipe_names())}")
        return self


class Changes(Config):
    """Laid over a model's setup."""

    model: Settings = Field(default_factory=dict)
    train: Settings = Field(default_factory=dict)


class ModelEntry(Changes):
    """A model of a suite: a kind, and what differs from its setup."""

    kind: str
    title: str = ""
    edition: str = ""
    """Of the recipe that it is trained by: `plus` takes <problem>_plus, or <problem>_plus_small."""
    data: tuple[str, ...] = ()
    """Data sets that it is trained on; all by default."""
    small: Changes | None = None
    """Instead of `model` and `train` with --small."""
    ours: bool = False
    """Searched whatever its place, and none of the rivals that `strongest` counts."""
    search: ModelSearch = ModelSearch()


class Suite(Config):
    """models × data × seeds."""

    name: str
    about: str = ""
    size: Size = "paper"
    """Of the presets."""
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    minutes: PositiveFloat | None = None
    """Training time of a run; without it and `steps`, the epochs of each model's setup."""
    steps: PositiveInt | None = None
    """Of a run, instead of minutes."""
    fewest_steps: NonNegativeInt = 300
    """Of a run with a budget of minutes, however slow its model."""
    train: Settings = Field(default_factory=dict)
    """For all models on all data sets."""
    search: Search | None = None
    """Of settings of training, before the runs that are compared; none with --small."""
    data: Annotated[dict[str, DataEntry], Field(min_length=1)]
    models: Annotated[dict[str, ModelEntry], Field(min_length=1)]
    paper: dict[str, dict[str, str]] = Field(default_factory=dict)
    """By data set and model, as printed; models that are not trained here are shown all the same."""

    @model_validator(mode="before")
    @classmethod
    def _kinds_by_name(cls, content: Any) -> Any:
        """A model whose name is a kind is of that kind."""
        models = content.get("models") if isinstance(content, dict) else None
        if not isinstance(models, dict):
            return content
        filled = {name: entry if isinstance(entry, dict) else {} for name, entry in models.items() if _mapping(name, entry)}
        return content | {"models": {name: {"kind": name} | entry for name, entry in filled.items()}}

    @model_validator(mode="after")
    def _names_are_known(self) -> Suite:
        if self.minutes is not None and self.steps is not None:
            raise ValueError("minutes, steps: one of them says how long a run is; leave the other out")
        for name, entry in self.models.items():
            if entry.kind not in MODELS:
                raise ValueError(f"models: {name}: there is no model {entry.kind!r}. {suggestion(entry.kind, list(MODELS))}")
            for wanted in entry.data:
                if wanted not in self.data:
                    raise ValueError(f"models: {name}: data: there is no {wanted!r}. {suggestion(wanted, list(self.data))}")
        for wanted in self.paper:
            if wanted not in self.data:
                raise ValueError(f"paper: there is no data set {wanted!r}. {suggestion(wanted, list(self.data))}")
        self._refuse_idle_searches()
        return self

    def _refuse_idle_searches(self) -> None:
        for place, entries in (("data", self.data), ("models", self.models)):
            for name, entry in entries.items():
                if entry.search.settings and self.search is None:
                    raise ValueError(f"{place}: {name}: search: the suite has none. Say `search` with its minutes and settings")
        for name, entry in self.models.items():
            if not entry.search.wanted and (entry.ours or entry.search.settings):
                other = "ours" if entry.ours else "settings"
                raise ValueError(f"models: {name}: search, {other}: a model that is never searched can't have both")

    def with_changes(self, seeds: int | None = None, minutes: float | None = None) -> Suite:
        """The suite with so many seeds, and trained for so many minutes, where they are told."""
        changes: dict[str, Any] = {}
        if seeds is not None:
            changes["seeds"] = tuple(range(seeds))
        if minutes is not None:
            changes |= {"minutes": minutes, "steps": None}
        return Suite.model_validate(self.model_dump(exclude_unset=True) | changes) if changes else self


def suite_names() -> list[str]:
    """The suites that come with the package."""
    return sorted(path.name.removesuffix(".yaml") for path in _shipped().iterdir() if path.name.endswith(".yaml"))


def load_suite(name: str) -> Suite:
    """A shipped suite by name, or a YAML file."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise ConfigError(f"suite: there is no file {name}. Shipped suites: {', '.join(suite_names())}.")
        text, name = yaml_text(path), path.stem
    elif name in suite_names():
        text = _shipped().joinpath(f"{name}.yaml").read_text()
    else:
        raise ConfigError(f"suite: there is no {name!r}. {suggestion(name, suite_names())} A file of your own ends in .yaml.")
    try:
        return Suite.model_validate({"name": name} | yaml_mapping(text, path, "data and models"))
    except ConfigError as error:
        raise ConfigError(f"suite {name}: {error}") from None


def _mapping(name: object, entry: object) -> bool:
    if isinstance(entry, dict) or entry is None:
        return True
    raise ValueError(f"models: {name}: expected settings, got {entry!r}")


def _shipped() -> Any:
    return resources.files("calm_pde") / "suites"
