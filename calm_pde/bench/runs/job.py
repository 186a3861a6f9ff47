"""`calm bench SUITE`: the campaign of a suite in a folder, and the three forms of its table."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from calm_pde.bench.measured.result import Failure, Result
from calm_pde.bench.runs.campaign import Campaign
from calm_pde.bench.runs.cells import cells, chosen
from calm_pde.bench.runs.suite import Suite
from calm_pde.bench.shown.page import page
from calm_pde.bench.shown.table import comma_separated, markdown, rows
from calm_pde.errors import CalmError
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.files.locks import held


class SuiteJob:
    """Runs a suite, or one of its runs, and writes table.html, table.md and table.csv after each."""

    def __init__(self, suite: Suite, out: Path, console: Console, *, small: bool = False, steps: int | None = None) -> None:
        self.suite, self.out, self.console = suite, out, console
        self.cells = cells(suite, out, small, steps)
        self.campaign = Campaign(self.cells, out, console, self.write_tables)

    def run(self, only: tuple[str, ...] = (), index: int | None = None) -> None:
        """What is left to do of the runs that are named, or of the one at a place of the list.

        A whole campaign has its folder for itself; jobs of an array share it, and each has the folder of its run.
        """
        wanted = chosen(self.cells, only)
        if index is not None:
            if not 0 <= index < len(wanted):
                raise CalmError(f"index: expected 0 to {len(wanted) - 1}, as --list shows them, got {index}.")
            wanted = wanted[index : index + 1]
        make_folder(self.out)
        with held(self.out) if index is None else nullcontext():
            self.campaign.run(wanted)
        self.console.print(f"The tables are in {self.out / 'table.html'}, .md and .csv", highlight=False, soft_wrap=True)

    def show_runs(self) -> None:
        """A line per run: its place, what it is, and what is known of it."""
        found = self.campaign.found()
        for place, cell in enumerate(self.cells):
            known = found[cell.name]
            state = "not run yet"
            if isinstance(known, Result):
                state = f"test error {known.error:.4f}"
            elif isinstance(known, Failure):
                state = f"failed: {known.reason}"
            words = f"{place:3d}  {cell.title} on {cell.data}, seed {cell.seed} ({cell.preset}): {state}"
            self.console.print(words, highlight=False, soft_wrap=True, markup=False)

    def write_tables(self) -> None:
        """From all results that are there."""
        make_folder(self.out)
        table = rows(self.suite, self.cells, self.campaign.found())
        contents = {
            "html": page(self.suite, table),
            "md": markdown(self.suite, table),
            "csv": comma_separated(table),
        }
        for ending, text in contents.items():
            replace_file(self.out / f"table.{ending}", text.encode())
