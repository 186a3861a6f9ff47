"""`calm check`: whether a data file is fit for training."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import tyro
from rich.console import Console
from rich.markup import escape

from calm_pde.data import check as data_check
from calm_pde.data.finding import Finding
from calm_pde.data.picture import trajectory_picture
from calm_pde.data.storage import DataFile
from calm_pde.errors import InputError
from calm_pde.files.atomic import check_free
from calm_pde.models.size import preset_step_bytes
from calm_pde.train.config import conditions_left_out, load_recipe

PICTURES = (".png", ".pdf", ".svg")


def check(
    file: tyro.conf.Positional[Path],
    picture: Path | None = None,
    trajectory: int = 0,
    preset: str | None = None,
    recipe: str | None = None,
) -> None:
    """Say in plain words whether a data file is fit for training; exit code 1 if something is wrong.

    Args:
        file: The data file.
        picture: Also draw one trajectory, to this file (.png, .pdf or .svg).
        trajectory: Which one to draw.
        preset: Also tell the memory that training this preset on the file would take.
        recipe: Also tell what of the file this recipe keeps from its model.
    """
    console = Console()
    if picture is not None:
        if picture.suffix not in PICTURES:
            raise InputError(
                "picture", expected=f"a file name that ends in {', '.join(PICTURES)}", got=str(picture), fix="Choose one."
            )
        check_free([picture], overwrite=True)
    opened = DataFile(file)
    wrong = doubtful = 0
    for finding in (*data_check.check(opened), *_of_recipe(recipe, opened)):
        mark = {"good": "[green]good    [/]", "doubtful": "[yellow]doubtful[/]", "wrong": "[red]wrong   [/]"}[finding.level]
        console.print(f"{mark} {escape(finding.subject)}: {escape(finding.text)}", highlight=False, soft_wrap=True)
        wrong += finding.level == "wrong"
        doubtful += finding.level == "doubtful"
    if preset is not None:
        peak = preset_step_bytes(preset, opened)
        known = f"a training step of one trajectory takes {(peak or 0) / 2**20:.0f} MiB"
        words = "what a training step takes is not known" if peak is None else known
        console.print(f"[green]good    [/] {preset}: {words}", highlight=False, soft_wrap=True)
    if picture is not None:
        trajectory_picture(opened, trajectory).savefig(picture, dpi=110)
        console.print(f"A picture of trajectory {trajectory} is in {picture}", highlight=False, soft_wrap=True)
    doubts = f"Ready to train, with {doubtful} doubt{'s' if doubtful > 1 else ''}; see above."
    verdict = "Something is wrong; see above." if wrong else doubts if doubtful else "Ready to train."
    console.print(verdict, style="red" if wrong else "yellow" if doubtful else "green", highlight=False)
    if wrong:
        sys.exit(1)


def _of_recipe(name: str | None, file: DataFile) -> Iterator[Finding]:
    """Whether a recipe tells its model all that the file has beside the states."""
    if name is None or not any(file.description.conditions.values()):
        return
    left_out = conditions_left_out(load_recipe(name), file.description)
    text = f"its model is not told {', '.join(left_out)} (data.conditions)" if left_out else "its model is told all conditions"
    yield Finding("doubtful" if left_out else "good", f"recipe {name}", text)
