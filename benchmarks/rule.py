"""The recipe of the rule beside the hand-made small one, at equal time: `python -m benchmarks.rule [SET …] --minutes 3`.

Both train on the data of the hand-made recipe, `SET_plus_small`, for so many minutes of one core, and are measured on the test
split. What is done is kept in the folder `--out`: started again, it goes on. The bar is a ratio of errors of at most 1.15.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import tyro
from rich.console import Console

import calm_pde as cp
from benchmarks.measure import report
from calm_pde.bench.measured.clock import clock
from calm_pde.config import merged
from calm_pde.metrics import REDUCTIONS
from calm_pde.train.config import Recipe, load_recipe
from calm_pde.train.length.probes import pace
from calm_pde.train.length.steps import length_settings, steps_within
from calm_pde.train.making import make_missing
from calm_pde.train.rule.proposal import proposal
from calm_pde.train.rule.writing import recipe_text

SETS = (
    "burgers_1d",
    "navier_stokes_2d",
    "navier_stokes_2d_1e-5",
    "compressible_3d",
    "airfoil_2d",
    "cylinder_2d",
    "steady_airfoil",
    "elasticity",
    "heat",
)
BAR = 1.15


class Found(NamedTuple):
    """The test error of a training, and its steps."""

    error: float
    steps: int


def main(
    sets: tyro.conf.Positional[tuple[str, ...]] = SETS,
    minutes: float = 3.0,
    out: Path = Path("bench/rule"),
    data: Path | None = None,
) -> None:
    """
    Args:
        sets: Names of problems of the paper, and `heat`.
        minutes: Of each training.
        out: Where recipes and runs are kept.
        data: Another data file, where one set is named.
    """
    rows: dict[str, tuple[Found, Found]] = {}
    for name in sets:
        by_hand = load_recipe(f"{name}_plus_small", {} if data is None else {"data": {"file": data, "generate": None}})
        make_missing(by_hand.data, Console())
        kept = {"file", "fields", "frame_stride", "conditions"} & by_hand.data.model_fields_set  # both are told the same
        bare = Recipe.model_validate({"name": name, "data": by_hand.data.model_dump(include=kept)})
        by_rule = proposal(bare).recipe
        hand, rule = (
            trained(recipe, out / name / which, minutes, by_hand.train.reduction)
            for which, recipe in (("hand", by_hand), ("rule", by_rule))
        )
        rows[name] = (hand, rule)
    report("rule", table(rows, minutes))


def trained(recipe: Recipe, folder: Path, minutes: float, reduction: str) -> Found:
    """The error after a training of so many minutes; one that was begun goes on, and one that is done is only measured."""
    path = folder / "timed.yaml"
    if not path.exists():
        taken = pace(recipe, clock(recipe.train.threads))
        steps = steps_within(minutes, taken.stages, taken.validation)
        content = recipe.model_dump(mode="json", exclude_unset=True)
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(recipe_text(merged(content, {"train": length_settings(steps, taken.epoch_steps)}), {}, []))
    run = cp.fit(path, folder / "run", console=Console())
    found = cp.evaluate(run).overall(REDUCTIONS[reduction])
    return Found(found.mean, len(run.losses))


def table(rows: dict[str, tuple[Found, Found]], minutes: float) -> list[str]:
    lines = [
        f"{minutes:g} minutes of one core for each training; error on the test split.",
        "",
        "| set | by hand | steps | by the rule | steps | ratio | at most 1.15 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, (hand, rule) in rows.items():
        ratio = rule.error / hand.error
        verdict = "yes" if ratio <= BAR else "no"
        counts = f"{hand.error:.4f} | {hand.steps:,} | {rule.error:.4f} | {rule.steps:,}"
        lines.append(f"| {name} | {counts} | {ratio:.3f} | {verdict} |")
    return lines


if __name__ == "__main__":
    tyro.cli(main)
