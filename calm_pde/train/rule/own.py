"""A recipe for data of one's own: written for a look, or settled at the start of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rich.console import Console

from calm_pde.config import merged
from calm_pde.data.convert import convert, reader_of
from calm_pde.errors import ConfigError, FileError
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.progress import console_of, progress
from calm_pde.surrogate.parent import KeptStatistics
from calm_pde.train.config import DATA_FILES, ParentConfig, Recipe, load_recipe
from calm_pde.train.length.probes import Pace, pace
from calm_pde.train.length.steps import length_settings, steps_within
from calm_pde.train.making import announce
from calm_pde.train.rule.procedure import LEARNING_RATE
from calm_pde.train.rule.proposal import Proposal, adopted, proposal, unsized
from calm_pde.train.rule.writing import recipe_text

MINUTES = 15.0
"""Of a training whose length nobody said."""
GENTLER = 0.1
"""What a learning rate is multiplied by where a training goes on from another."""
SETTLED = "recipe.yaml"
_LENGTH = ("epochs", "stages", "batches_per_epoch")


def recipe_for(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    minutes: float | int = MINUTES,
    reader: str | None = None,
    console: Console | None = None,
) -> Recipe:
    """A recipe for a data file by the rule of docs/own_data.md, as long as a few timed steps say.

    Args:
        data: the data file, or files that a reader of `calm convert` knows, which become NAME.h5 in the working folder first.
        out: a YAML file to write it to, with comments; one that exists is refused.
        minutes: how long the training is to take on this machine.
        reader: the kind of files, where their names do not tell it.
        console: where to tell of the progress; by default nothing is said.
    """
    console, path = console_of(console), None if out is None else Path(out)
    if path is not None:
        _check_new(path)
    file = data_file(Path(data), reader, console)
    bare = Recipe.model_validate({"name": file.stem if path is None else path.stem, "data": {"file": str(file)}})
    found = timed(proposal(bare), minutes, console)
    if path is not None:
        content = {key: value for key, value in found.content.items() if key != "name"}
        replace_file(path, recipe_text(content, found.notes, found.head).encode())
        _say(console, f"The recipe is in {path}; train with: calm train {path}")
    return found.recipe


def data_file(path: Path, reader: str | None, console: Console) -> Path:
    """The data file itself, or what a reader makes of other files, in the working folder."""
    if reader is None and path.suffix in DATA_FILES:
        return path
    out = Path(f"{path.stem}.h5")
    kind = reader or reader_of(path)
    if out.exists():
        raise FileError(out, "is there already", fix=f"Go on with `calm init {out}`, or move it away to convert {path} again.")
    with progress(f"convert {kind}", console) as show:
        file = convert(kind, out, path=path, progress=show)
    announce(file, console)
    return out


def unsettled(recipe: Recipe) -> bool:
    """Whether sizes or length of a recipe are found at the start of its run."""
    return unsized(recipe) or recipe.minutes is not None or recipe.parent is not None


def fine_tuned(recipe: Recipe, parent: str | os.PathLike[str], statistics: KeptStatistics, rate_said: bool) -> Recipe:
    """The recipe from the weights of another run on, at a tenth of its learning rate if nobody said another."""
    train = recipe.train
    if not rate_said:
        usual = LEARNING_RATE if unsized(recipe) and "learning_rate" not in train.model_fields_set else train.learning_rate
        train = train.model_copy(update={"learning_rate": float(f"{GENTLER * usual:.3g}")})
    chosen = ParentConfig(run=Path(parent), statistics=statistics)
    return recipe.model_copy(update={"parent": chosen, "train": train})


def settled(recipe: Recipe, run: Path, console: Console) -> Recipe:
    """The recipe with what it leaves to the rule; RUN/recipe.yaml keeps that for every later start of the run."""
    if not unsettled(recipe):
        return recipe
    path = run / SETTLED
    while int(os.environ.get("RANK", "0")) and not path.exists():  # of several processes the first finds it
        time.sleep(1.0)
    if path.exists():
        return _again(recipe, path)
    chosen = proposal(recipe) if unsized(recipe) else Proposal(adopted(recipe), {}, [])
    if recipe.minutes is not None or (unsized(recipe) and "epochs" not in recipe.train.model_fields_set):
        chosen = timed(chosen, recipe.minutes or MINUTES, console, recipe.train.model_fields_set)
        chosen.content["minutes"] = recipe.minutes or MINUTES
    make_folder(run)
    replace_file(path, recipe_text(chosen.content, chosen.notes, chosen.head).encode())
    _say(console, f"The recipe is in {path}")
    return chosen.recipe


def timed(found: Proposal, minutes: float | int, console: Console, said: Collection[str] = ()) -> Proposal:
    """With as many epochs as fit into so many minutes here, by the seconds of a few steps.

    Args:
        said: settings of the training that stay, but for those that are its length.
    """
    recipe = found.recipe
    _say(console, f"timing a few steps of {recipe.name} …")
    taken = pace(recipe)
    steps = steps_within(minutes, taken.stages, taken.validation)
    length = length_settings(steps, taken.epoch_steps)
    train = {name: value for name, value in found.content.get("train", {}).items() if name not in _LENGTH}
    chosen = {name: value for name, value in length.items() if value and not (name in said and name not in _LENGTH)}
    return Proposal(found.content | {"train": chosen | train}, found.notes | _length_notes(minutes, steps, taken), found.head)


def _length_notes(minutes: float | int, steps: list[int], taken: Pace) -> dict[str, str]:
    seconds = sum(count * each for count, each in zip(steps, taken.stages, strict=True)) / sum(steps)
    each = f"{seconds:.2g} s" if seconds >= 0.1 else f"{1000 * seconds:.0f} ms"
    return {
        "train.epochs": f"{sum(steps):,} steps of {each} in {minutes:g} minutes, timed on this machine",
        "train.batches_per_epoch": "so that windows grow in at least 20 epochs",
    }


def _again(recipe: Recipe, path: Path) -> Recipe:
    """What was settled when the run began, with what is said now."""
    known = load_recipe(str(path))
    if recipe.minutes is not None and recipe.minutes != known.minutes:
        began = "a length of its own" if known.minutes is None else f"{known.minutes:g} minutes"
        raise ConfigError(
            f"minutes: {path.parent} was begun with {began}, got {recipe.minutes:g}. Leave minutes out to go on, or name "
            "another run with --out."
        )
    said: dict[str, Any] = recipe.model_dump(mode="json", exclude_unset=True)
    return Recipe.model_validate(merged(known.model_dump(mode="json", exclude_unset=True), said))


def _check_new(path: Path) -> None:
    if path.suffix not in (".yaml", ".yml"):
        raise ConfigError(f"out: expected a file name that ends in .yaml, got {path}. Choose one.")
    if path.exists():
        raise FileError(path, "is there already", fix="Name another file with --out, or move it away.")


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)
