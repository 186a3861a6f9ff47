"""`calm train`: a run from a recipe, of which any setting can be given."""

from __future__ import annotations

import sys
from inspect import cleandoc
from pathlib import Path

import tyro
from rich.console import Console

from calm_pde.config import Config
from calm_pde.train.config import TrainConfig, load_recipe, model_changes, recipe_names
from calm_pde.train.fit import Resume, fit


class DataOptions(Config):
    file: Path
    """The data file."""
    fields: tuple[str, ...] = ()
    """Names of the fields to learn; by default the file's targets."""
    frame_stride: int = 1
    """Take every so many-th frame."""


class TrainOptions(Config):
    recipe: tyro.conf.Positional[str]
    """A shipped recipe, or a .yaml file of your own."""
    out: Path | None = None
    """The run folder; by default runs/RECIPE."""
    resume: Resume = "auto"
    """auto: go on where the run folder left off; force: also with other settings; never: refuse a folder that has a run."""
    data: DataOptions
    train: TrainConfig


def train(arguments: list[str]) -> None:
    """Train a surrogate from a recipe; an interrupted run goes on when started again.

    Any setting of a recipe can be given: --train.epochs 50, --data.file my.h5, --model.processor.blocks 3.
    """
    if not arguments or arguments[0].startswith("-"):
        listed = ", ".join(recipe_names())
        text = f"usage: calm train RECIPE [--train.epochs 50 …]\n\n{cleandoc(train.__doc__ or '')}\n\nShipped recipes: {listed}"
        Console(stderr=not arguments).print(text, highlight=False, markup=False)
        sys.exit(0 if arguments else 2)
    arguments, model = model_changes(arguments)
    recipe = load_recipe(arguments[0], {"model": model} if model else None)
    given = recipe.data.model_dump(include=set(DataOptions.model_fields))
    default = TrainOptions(recipe=arguments[0], data=DataOptions(**given), train=recipe.train)
    options = tyro.cli(
        TrainOptions, prog="calm train", description=cleandoc(train.__doc__ or ""), default=default, args=arguments
    )
    data = recipe.data.model_copy(update=options.data.model_dump())
    recipe = recipe.model_copy(update={"data": data, "train": options.train})
    fit(recipe, options.out, resume=options.resume, console=Console())
