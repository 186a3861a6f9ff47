"""`calm demo`: from nothing to a report."""

from __future__ import annotations

from pathlib import Path

from calm_pde.cli.evaluate import evaluate
from calm_pde.cli.report import report
from calm_pde.cli.train import train_recipe
from calm_pde.train.config import load_recipe


def demo(folder: Path = Path("demo"), epochs: int | None = None, samples: int | None = None) -> None:
    """Make data with our solver, train a small CALM-PDE, evaluate it on unseen initial conditions, write a report.

    Interrupted and started again, it goes on.

    Args:
        folder: Where everything goes.
        epochs: Fewer epochs than the recipe's, for a quick look.
        samples: Fewer trajectories than the recipe's.
    """
    recipe = load_recipe("navier_stokes_2d_demo", {"data": {"file": folder / "data.h5"}})
    if epochs is not None:
        recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"epochs": epochs})})
    if samples is not None and recipe.data.generate is not None:
        made = recipe.data.generate.model_copy(update={"samples": samples})
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"generate": made})})
    run = folder / "run"
    train_recipe(recipe, run)
    evaluate(run)
    report(run, out=folder / "report.html")
