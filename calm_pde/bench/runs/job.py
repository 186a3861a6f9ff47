"""Comparing models: the campaign of a suite in a folder, and the three forms of its table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from calm_pde.bench.measured.result import Failure, Result
from calm_pde.bench.runs.campaign import Campaign
from calm_pde.bench.runs.suite import Suite, load_suite
from calm_pde.bench.runs.trials import chosen, trials
from calm_pde.bench.shown.page import page
from calm_pde.bench.shown.table import Row, comma_separated, error_text, markdown, rows
from calm_pde.errors import CalmError
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.files.locks import held
from calm_pde.progress import SILENT


@dataclass(frozen=True, repr=False)
class Comparison:
    """What is known of a suite's runs: the rows of each data set, one per model, over all seeds."""

    suite: Suite
    path: Path
    """The folder of all runs, with table.html, table.md and table.csv."""
    rows: dict[str, list[Row]]

    @property
    def table(self) -> str:
        """All rows with all numbers, as Markdown."""
        return markdown(self.suite, self.rows)

    def __repr__(self) -> str:
        lines = [f"Comparison({self.suite.name} in {self.path})"]
        for data, found in self.rows.items():
            ours = [row for row in found if row.ours]
            begun = [f"{row.title} {error_text(row)}" for row in ours if row.results or row.failures]
            left = [f"{len(ours) - len(begun)} not run yet"] if len(begun) < len(ours) else []
            lines.append(f"  {self.suite.data[data].title or data}: {', '.join(begun + left)}")
        return "\n".join(lines)


def compare(
    suite: str | os.PathLike[str] | Suite,
    out: str | os.PathLike[str] | None = None,
    *,
    small: bool = False,
    steps: int | None = None,
    only: Sequence[str] = (),
    index: int | None = None,
    seeds: int | None = None,
    minutes: float | None = None,
    workers: int = 1,
    console: Console | None = None,
) -> Comparison:
    """Train the models of a suite on its data sets and compare their test errors; finished runs are kept.

    Args:
        suite: the name of a shipped one, a YAML file, or the suite itself.
        out: the folder of the campaign; by default bench/SUITE.
        small: everything small: tiny data, small presets, a few steps.
        steps: train every run for so many steps, instead of the suite's minutes or epochs.
        only: names of models and data sets; the others are left for later.
        index: do one run alone, by its place in the list of all.
        seeds: 0, 1, … so many of them, instead of the suite's.
        minutes: train every run for so long, instead of the suite's minutes, steps or epochs.
        workers: how many runs go on side by side, each in a process of its own.
        console: where to tell of the progress; by default nothing is said.
    """
    name = suite.name if isinstance(suite, Suite) else os.fspath(suite)
    folder = campaign_folder(name, small) if out is None else Path(out)
    found = (suite if isinstance(suite, Suite) else load_suite(name)).with_changes(seeds, minutes)
    job = SuiteJob(found, folder, console or SILENT, small=small, steps=steps)
    job.run(tuple(only), index, workers)
    return Comparison(found, folder, job.rows())


def campaign_folder(suite: str, small: bool) -> Path:
    """Where a campaign goes that nobody gave a folder."""
    return Path("bench") / f"{Path(suite).stem}{'_small' if small else ''}"


class SuiteJob:
    """Runs a suite, or one of its runs, and writes table.html, table.md and table.csv after each."""

    def __init__(self, suite: Suite, out: Path, console: Console, *, small: bool = False, steps: int | None = None) -> None:
        self.suite, self.out, self.console = suite, out, console
        self.trials = trials(suite, out, small, steps)
        self.campaign = Campaign(self.trials, out, console, self.write_tables)

    def run(self, only: tuple[str, ...] = (), index: int | None = None, workers: int = 1) -> None:
        """What is left to do of the runs that are named, or of the one at a place of the list.

        A whole campaign has its folder for itself; jobs of an array share it, and each has the folder of its run.
        """
        wanted = chosen(self.trials, only)
        if workers < 1:
            raise CalmError(f"workers: expected at least 1, got {workers}.")
        if index is not None:
            if not 0 <= index < len(wanted):
                raise CalmError(f"index: expected 0 to {len(wanted) - 1}, as --list shows them, got {index}.")
            wanted = wanted[index : index + 1]
        make_folder(self.out)
        with held(self.out) if index is None else nullcontext():
            self.campaign.run(wanted, workers)
        self.console.print(f"The tables are in {self.out / 'table.html'}, .md and .csv", highlight=False, soft_wrap=True)

    def show_runs(self) -> None:
        """A line per run: its place, what it is, and what is known of it."""
        found = self.campaign.found()
        for place, trial in enumerate(self.trials):
            known = found[trial.name]
            state = "not run yet"
            if isinstance(known, Result):
                state = f"test error {known.error:.4f}"
            elif isinstance(known, Failure):
                state = f"failed: {known.reason}"
            words = f"{place:3d}  {trial.title} on {trial.data}, seed {trial.seed} ({trial.preset}): {state}"
            self.console.print(words, highlight=False, soft_wrap=True, markup=False)

    def rows(self) -> dict[str, list[Row]]:
        """Of each data set, from all results that are there."""
        return rows(self.suite, self.trials, self.campaign.found())

    def write_tables(self) -> None:
        make_folder(self.out)
        table = self.rows()
        contents = {
            "html": page(self.suite, table),
            "md": markdown(self.suite, table),
            "csv": comma_separated(table),
        }
        for ending, text in contents.items():
            replace_file(self.out / f"table.{ending}", text.encode())
