"""`calm report`: a run as one HTML file, and figures for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console

from calm_pde.files.atomic import check_free
from calm_pde.files.folders import make_folder
from calm_pde.progress import progress
from calm_pde.report.content import LIMIT, content
from calm_pde.report.figures import figure_inputs, write_figures
from calm_pde.report.findings import Findings
from calm_pde.report.page import page_size, write_page


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
    console, path = Console(), out or run / "report.html"
    check_free([path] if out else [], overwrite=True)
    if figures is not None:
        make_folder(figures)
    with progress("evaluate", console) as show:
        findings = Findings(run, data, split, show)
    with progress("report", console) as show:
        found = content(findings, samples=samples, room=LIMIT - page_size(), progress=show)
    size, held = write_page(found, path), len(found["samples"])
    words = f"{path} ({size / 1e6:.1f} MB, {held} of {len(findings.ranked)} trajectories)"
    console.print(f"Open the report in a browser: {words}", highlight=False, soft_wrap=True)
    if figures is not None:
        with progress("figures", console) as show:
            written = write_figures(figure_inputs(findings), figures, progress=show)
        console.print(f"{len(written)} figures are in {figures}", highlight=False, soft_wrap=True)
