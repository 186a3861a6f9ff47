"""`calm report`: a run as one HTML file, and figures for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console

from calm_pde.report.page import write_report


def report(
    run: tyro.conf.Positional[Path],
    data: Path | None = None,
    split: Literal["test", "validation", "train"] = "test",
    samples: int | None = None,
    out: Path | None = None,
    figures: Path | None = None,
) -> None:
    """One HTML file to look at: truth, prediction and error on the mesh, errors, training, and what the model learned.

    Args:
        run: The run folder, or a surrogate folder.
        data: The data file; by default the one it was trained on.
        split: Which part of it.
        samples: How many trajectories to hold; by default worst, median, best and as many more as fit in 8 MB.
        out: The file to write; by default report.html in the run folder.
        figures: Also write the figures for papers (PNG and PDF) and an animation to this folder.
    """
    write_report(run, out, data=data, split=split, samples=samples, figures=figures, console=Console())
