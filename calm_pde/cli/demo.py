"""`calm demo`: from nothing to a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from calm_pde.cli.evaluate import tell
from calm_pde.progress import progress
from calm_pde.report.findings import Findings
from calm_pde.report.page import write_report
from calm_pde.train.fit import fit


def demo(folder: Path = Path("demo"), epochs: int | None = None, samples: int | None = None) -> None:
    """Make data with our solver, train a small CALM-PDE, evaluate it on unseen initial conditions, write a report.

    Interrupted and started again, it goes on.

    Args:
        folder: Where everything goes.
        epochs: Fewer epochs than the recipe's, for a quick look.
        samples: Fewer trajectories than the recipe's.
    """
    changes: dict[str, Any] = {"data": {"file": folder / "data.h5"}}
    if epochs is not None:
        changes["train"] = {"epochs": epochs}
    if samples is not None:
        changes["data"]["generate"] = {"samples": samples}
    console = Console()
    run = fit("navier_stokes_2d_demo", folder / "run", changes=changes, console=console)
    with progress("evaluate", console) as show:
        findings = Findings(run, progress=show)
    tell(findings.evaluation, run.path, findings.data.file, console, own=True)
    write_report(findings, folder / "report.html", console=console)
