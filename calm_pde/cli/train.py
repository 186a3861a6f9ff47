"""`calm train`: a run from a recipe or from data alone, of which any setting can be given."""

from __future__ import annotations

import sys
from inspect import cleandoc
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from calm_pde.config import Config
from calm_pde.errors import ConfigError
from calm_pde.surrogate.parent import KeptStatistics
from calm_pde.train.config import TrainConfig, load_recipe, model_changes, recipe_names
from calm_pde.train.fit import Resume, fit
from calm_pde.train.rule.own import MINUTES

_SETTINGS = ("--train.", "--data.conditions")  # of which switches are said in more than one way


class DataOptions(Config):
    file: Path
    """The data file."""
    fields: tuple[str, ...] = ()
    """Names of the fields to learn; by default the file's targets."""
    frame_stride: int = 1
    """Take every so many-th frame."""
    conditions: bool | tuple[str, ...] = True
    """Which parameters, signals and features the model is told: all that the file has (True), none (False), or those named."""


class TrainOptions(Config):
    recipe: tyro.conf.Positional[str]
    """A shipped recipe, a .yaml file of your own, or a data file (.h5), for which a rule finds the recipe."""
    out: Path | None = None
    """The run folder; by default runs/RECIPE, or runs/FILE."""
    minutes: float | None = None
    """How long the training is to take here, instead of the recipe's epochs; a data file alone takes 15."""
    parent: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """A run to go on from: its architecture and weights, at a tenth of the recipe's learning rate."""
    statistics: KeptStatistics = "old"
    """With --from: whose mean and deviation normalize the fields, the old run's or those of the new data."""
    resume: Resume = "auto"
    """auto: go on where the run folder left off; force: also with other settings; never: refuse a folder that has a run."""
    data: DataOptions
    train: TrainConfig


def train(arguments: list[str]) -> None:
    """Train a surrogate from a recipe, or on a data file of your own; an interrupted run goes on when started again.

    Any setting of a recipe can be given: --train.epochs 50, --data.file my.h5, --model.processor.blocks 3.
    """
    if not arguments or arguments[0].startswith("-"):
        listed = ", ".join(recipe_names())
        text = (
            f"usage: calm train RECIPE [--train.epochs 50 …]\n       calm train FILE.h5 [--minutes {MINUTES:g}]\n\n"
            f"{cleandoc(train.__doc__ or '')}\n\nShipped recipes: {listed}"
        )
        Console(stderr=not arguments).print(text, highlight=False, markup=False)
        sys.exit(0 if arguments else 2)
    arguments, model = model_changes(_plain_switches(arguments))
    recipe = load_recipe(arguments[0], {"model": model} if model else None)
    shown = recipe.data.model_dump(include=set(DataOptions.model_fields))
    default = TrainOptions(recipe=arguments[0], data=DataOptions(**shown), train=recipe.train)
    options = tyro.cli(
        TrainOptions, prog="calm train", description=cleandoc(train.__doc__ or ""), default=default, args=arguments
    )
    changes = {part: _given(part, getattr(options, part), arguments) for part in ("data", "train")}
    fit(
        recipe,
        options.out,
        changes=changes,
        minutes=options.minutes,
        parent=options.parent,
        statistics=options.statistics,
        resume=options.resume,
        console=Console(),
    )


def _given(part: str, options: Config, arguments: list[str]) -> dict[str, Any]:
    """The settings of a part that stand on the command line: what nobody says there is left to recipe and rule."""
    words = [word.partition("=")[0] for word in arguments if word.startswith(f"--{part}.")]
    names = {word.removeprefix(f"--{part}.").removeprefix("no-").replace("-", "_") for word in words}
    return {name: value for name, value in options.model_dump().items() if name in names}


def _plain_switches(arguments: list[str]) -> list[str]:
    """`--train.curriculum false` as `--train.no-curriculum`: switches are said in both ways."""
    words = [part for word in arguments for part in (word.split("=", 1) if word.startswith(_SETTINGS) else [word])]
    known = {f"--train.{name}" for name, field in TrainConfig.model_fields.items() if field.annotation is bool}
    found: list[str] = []
    for word in words:
        if word.replace("_", "-") in ("--train.tensorboard", "--train.no-tensorboard"):
            raise ConfigError("train.tensorboard: it is one of train.log now. Say: --train.log tensorboard")
        switch = found[-1].replace("-", "_").replace("__", "--", 1) if found else ""
        if word in ("true", "false") and switch == "--data.conditions":
            word = word.capitalize()
        if word.lower() in ("true", "false") and switch in known:
            found[-1] = found[-1] if word.lower() == "true" else switch.replace("--train.", "--train.no-")
        else:
            found.append(word)
    return found
