"""`calm demo`: from nothing to a report."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from calm_pde.cli.evaluate import tell
from calm_pde.report import demo as report_demo


def demo(folder: Path = Path("demo"), epochs: int | None = None, samples: int | None = None) -> None:
    """Make data with our solver, train a small CALM-PDE, evaluate it on unseen initial conditions, write a report.

    Interrupted and started again, it goes on.

    Args:
        folder: Where everything goes.
        epochs: Fewer epochs than the recipe's, for a quick look.
        samples: Fewer trajectories than the recipe's.
    """
    console = Console()
    report_demo.demo(
        folder, epochs=epochs, samples=samples, console=console, observe=lambda found, out: tell(found, out, console)
    )
