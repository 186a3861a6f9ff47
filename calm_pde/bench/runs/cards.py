"""Cards: how a kind of model is trained on a problem, and the smallest data of each problem."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import PositiveInt

from calm_pde.config import Config, suggestion, yaml_mapping
from calm_pde.errors import ConfigError
from calm_pde.models import MODELS, CalmConfig
from calm_pde.train.config import GenerateConfig, load_recipe

Size = Literal["paper", "small"]


class Card(Config):
    """A model with its training, before anything else is said about a run."""

    title: str
    preset: str
    """What its sizes are called."""
    model: dict[str, Any]
    train: dict[str, Any]
    iterations: PositiveInt | None = None
    """Steps, where the training is counted in them and not in epochs."""


def problems() -> list[str]:
    """Those that presets and cards are named by."""
    return [name for name in CalmConfig.presets if not name.endswith("_small")]


def title(kind: str) -> str:
    return "CALM-PDE" if kind == "calm" else str(_trained(kind)["title"])


def card(kind: str, problem: str, size: Size, recipe: str | None = None) -> Card:
    """What a kind of model is on a problem; CALM-PDE's card is the recipe of that name, unless another is given."""
    if kind not in MODELS:
        raise ConfigError(f"kind: there is no model {kind!r}. {suggestion(kind, list(MODELS))}")
    if kind == "calm":
        found = load_recipe(f"{recipe or problem}_small" if size == "small" else recipe or problem)
        train = found.train.model_dump(exclude_unset=True)
        return Card(title=title(kind), preset=found.name, model=found.model, train=train)
    known = _trained(kind)["problems"]
    if problem not in known:
        raise ConfigError(
            f"kind: {kind} is not made for {problem}, only for {', '.join(known)}. Say where it is trained with `data`."
        )
    preset = f"{problem}_small" if size == "small" else problem
    train = _trained(kind)["train"] | known[problem]
    iterations = train.pop("iterations", None)
    model = {"kind": kind, "preset": preset}
    return Card(title=title(kind), preset=preset, model=model, train=train, iterations=iterations)


def tiny(problem: str) -> GenerateConfig:
    """Data of a problem that are made in seconds."""
    return GenerateConfig.model_validate(_read("tiny.yaml")[problem])


def _trained(kind: str) -> dict[str, Any]:
    """What is known of the training of a kind of model."""
    if kind not in _training():
        raise ConfigError(
            f"kind: the model {kind!r} has no training card. Add one, with its title, train and problems, under that name to "
            "calm_pde/bench/cards/training.yaml."
        )
    return _training()[kind]


@cache
def _training() -> dict[str, Any]:
    return _read("training.yaml")


def _read(name: str) -> dict[str, Any]:
    return yaml_mapping((resources.files("calm_pde.bench.runs") / "cards" / name).read_text(), name, "by name")
