"""`calm init`: a recipe for data of one's own."""

from __future__ import annotations

from pathlib import Path

import tyro
from rich.console import Console

from calm_pde.train.rule.own import MINUTES, recipe_for


def init(
    data: tyro.conf.Positional[Path], out: Path | None = None, minutes: float = MINUTES, reader: str | None = None
) -> None:
    """Look at data and write a recipe for them, with a comment on each choice; `calm train FILE` does both.

    Args:
        data: A data file; or an .npz file, a folder or other files that `calm convert` knows, which become a data file first.
        out: The recipe to write; by default NAME.yaml in the working folder.
        minutes: How long the training is to take on this machine; a few steps are timed.
        reader: The kind of files, as `calm convert` names it, where their names do not tell it.
    """
    recipe_for(data, out or Path(f"{data.stem}.yaml"), minutes=minutes, reader=reader, console=Console())
