"""From nothing to a report in one call."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from calm_pde.metrics.scores import Evaluation
from calm_pde.progress import console_of, progress
from calm_pde.report.findings import Findings
from calm_pde.report.page import Report, write_report
from calm_pde.surrogate.evaluate import write_evaluation
from calm_pde.train.fit import fit

RECIPE = "navier_stokes_2d_demo"


def demo(
    folder: str | os.PathLike[str] = "demo",
    *,
    epochs: int | None = None,
    samples: int | None = None,
    console: Console | None = None,
    observe: Callable[[Evaluation, Path], None] | None = None,
) -> Report:
    """Make data with our solver, train a small CALM-PDE, evaluate it on unseen initial conditions, write a report.

    Interrupted, the same call goes on where it was.

    Args:
        folder: where everything goes.
        epochs: fewer than the recipe's, for a quick look.
        samples: fewer trajectories than the recipe's.
        console: where to tell of the progress; by default nothing is said.
        observe: called with the errors and the file that holds them, before the report is written.
    """
    place, console = Path(folder), console_of(console)
    changes: dict[str, Any] = {"data": {"file": place / "data.h5"}}
    if epochs is not None:
        changes["train"] = {"epochs": epochs}
    if samples is not None:
        changes["data"]["generate"] = {"samples": samples}
    run = fit(RECIPE, place / "run", changes=changes, console=console)
    with progress("evaluate", console) as show:
        findings = Findings(run, progress=show)
    written = write_evaluation(findings.evaluation, run.path, findings.data.file, own=True)
    if observe is not None:
        observe(findings.evaluation, written)
    return write_report(findings, place / "report.html", console=console)
