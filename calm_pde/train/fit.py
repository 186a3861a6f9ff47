"""From a recipe to a run in one call: data made where they are missing, trained to the end, or gone on with."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from calm_pde.config import merged
from calm_pde.errors import CalmError
from calm_pde.files.folders import make_folder
from calm_pde.files.locks import held
from calm_pde.progress import console_of
from calm_pde.surrogate.parent import KeptStatistics
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.config import Recipe, load_recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.making import make_missing
from calm_pde.train.record import read_record
from calm_pde.train.rule.own import fine_tuned, settled
from calm_pde.train.show import Show

Resume = Literal["auto", "never", "force"]


class Run:
    """The folder of a training, finished or not; it stands wherever the path of a run is asked for."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __fspath__(self) -> str:
        return str(self.path)

    @cached_property
    def surrogate(self) -> Surrogate:
        """The one that was best on the validation split."""
        return Surrogate.load(self.path)

    @property
    def history(self) -> list[dict[str, Any]]:
        """A line per epoch: `epoch`, `step`, `mean_loss`, `validation`, and `best`, the smallest of these errors so far."""
        return [line for line in read_record(self.path / "metrics.jsonl") if "mean_loss" in line]

    @property
    def losses(self) -> list[float | None]:
        """Of every step; None where one was not finite."""
        return [line["loss"] for line in read_record(self.path / "metrics.jsonl") if "loss" in line]

    def __repr__(self) -> str:
        history = self.history if (self.path / "metrics.jsonl").exists() else []
        words = [f"{len(history)} epoch{'' if len(history) == 1 else 's'}"]
        if history and history[-1]["mean_loss"] is not None:
            words.append(f"loss {history[-1]['mean_loss']:.4f}")
        validated = [line for line in history if line["validation"] is not None]
        if validated:
            best = min(validated, key=lambda line: line["validation"])
            words.append(f"best validation error {best['validation']:.4f} after epoch {best['epoch']}")
        return f"Run({self.path}: {', '.join(words)})"


def fit(
    recipe: str | os.PathLike[str] | Recipe,
    out: str | os.PathLike[str] | None = None,
    *,
    changes: dict[str, Any] | None = None,
    minutes: float | int | None = None,
    parent: str | os.PathLike[str] | None = None,
    statistics: KeptStatistics = "old",
    resume: Resume = "auto",
    console: Console | None = None,
) -> Run:
    """Train a surrogate from a recipe, or on a data file of your own by a rule.

    A data file that is missing is made first where the recipe tells how.

    Interrupted, the same call goes on where it was, and a finished run is not trained again. What a recipe leaves to the rule
    (docs/own_data.md) is settled at the first start and stands in RUN/recipe.yaml.

    Args:
        recipe: the name of a shipped one, a YAML file, a data file, or the recipe itself.
        out: the run folder; by default runs/RECIPE, or runs/FILE.
        changes: laid over the recipe, nested: `{"data": {"file": "ns.h5"}, "train": {"epochs": 50}}`.
        minutes: how long it is to take here, instead of the recipe's epochs.
        parent: the folder of a run or a surrogate that it goes on from, with its architecture and weights, at a tenth of the
            recipe's learning rate unless `changes` say another.
        statistics: of a training with a parent, whose mean and deviation normalize the fields: the old, the parent's, or the
            new of these data.
        resume: auto: go on where the run folder left off; force: also with other settings; never: refuse a folder that has a
            run.
        console: where to tell of the progress; by default nothing is said.
    """
    found = _changed(recipe, (changes or {}) | ({} if minutes is None else {"minutes": minutes}))
    if parent is not None:
        found = fine_tuned(found, parent, statistics, "learning_rate" in (changes or {}).get("train", {}))
    run, console = Path(out) if out is not None else Path("runs") / found.name, console_of(console)
    if resume == "never" and (run / "checkpoints").exists():
        raise CalmError(f"{run}: holds a run already. Name another with --out, or let it go on with --resume auto.")
    make_missing(found.data, console)
    make_folder(run)
    show = Show(console)
    try:
        with held(run):
            Trainer(settled(found, run, console), run, show, force=resume == "force").fit()
    finally:
        show.close()
        with suppress(OSError):  # only of a folder in which nothing came to be
            run.rmdir()
    return Run(run)


def _changed(recipe: str | os.PathLike[str] | Recipe, changes: dict[str, Any]) -> Recipe:
    if isinstance(recipe, Recipe):
        return Recipe.model_validate(merged(recipe.model_dump(exclude_unset=True), changes)) if changes else recipe
    return load_recipe(os.fspath(recipe), changes)
