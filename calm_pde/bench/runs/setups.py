"""Setups: what a model is on a problem and how it is trained there; and the smallest data of each problem."""

from __future__ import annotations

from importlib import resources
from typing import Any, Literal

from pydantic import PositiveInt

from calm_pde.config import Config, suggestion, yaml_mapping
from calm_pde.errors import ConfigError
from calm_pde.models import MODELS, OURS
from calm_pde.train.config import GenerateConfig, load_recipe

Size = Literal["paper", "small"]


class Setup(Config):
    """A model with its training, before anything else is said about a run."""

    title: str
    preset: str
    """What its sizes are called."""
    model: dict[str, Any]
    train: dict[str, Any]
    iterations: PositiveInt | None = None
    """Steps, where the training is counted in them and not in epochs."""


def problems() -> list[str]:
    """Those that presets and setups are named by."""
    return [name for name in MODELS[OURS].presets if not name.endswith(("_small", "_plus"))]


def title(kind: str) -> str:
    """Of a model in tables."""
    return MODELS[kind].title or kind


def setup(kind: str, problem: str, size: Size, recipe: str | None = None, edition: str = "") -> Setup:
    """What a kind of model is on a problem.

    Args:
        recipe: of a model that is trained by recipes, where it is not named as the problem.
        edition: of the recipe, such as `plus`; its size stands behind it.
    """
    if kind not in MODELS:
        raise ConfigError(f"kind: there is no model {kind!r}. {suggestion(kind, list(MODELS))}")
    practice = MODELS[kind].practice
    if practice.by_recipe:
        words = (recipe or problem, edition, "small" if size == "small" else "")
        found = load_recipe("_".join(word for word in words if word))
        train = found.train.model_dump(exclude_unset=True)
        return Setup(title=title(kind), preset=found.name, model=found.model, train=train)
    if edition:
        raise ConfigError(f"edition: {kind} is not trained by recipes, so it has no {edition!r}. Leave it out.")
    if not practice.problems:
        raise ConfigError(f"kind: nothing says how the model {kind!r} is trained. Say it in the `practice` of its config.")
    if problem not in practice.problems:
        known = ", ".join(practice.problems)
        raise ConfigError(f"kind: {kind} is not made for {problem}, only for {known}. Say where it is trained with `data`.")
    preset = f"{problem}_small" if size == "small" else problem
    train = practice.train | practice.problems[problem]
    iterations = train.pop("iterations", None)
    model = {"kind": kind, "preset": preset}
    return Setup(title=title(kind), preset=preset, model=model, train=train, iterations=iterations)


def tiny(problem: str) -> GenerateConfig:
    """Data of a problem that are made in seconds."""
    text = (resources.files("calm_pde.bench.runs") / "data_sizes" / "tiny.yaml").read_text()
    return GenerateConfig.model_validate(yaml_mapping(text, "tiny.yaml", "by name")[problem])
