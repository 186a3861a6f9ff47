"""Comparing models: the campaign of a suite in a folder, and the three forms of its table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from calm_pde.bench.measured.result import Outcome, Result, Validated
from calm_pde.bench.runs.campaign import Campaign, words
from calm_pde.bench.runs.phases import Phases, Searched
from calm_pde.bench.runs.suite import Suite, load_suite
from calm_pde.bench.runs.trials import Trial, chosen, trials
from calm_pde.bench.shown import search_table
from calm_pde.bench.shown.page import page
from calm_pde.bench.shown.table import Row, comma_separated, error_text, markdown, rows
from calm_pde.errors import CalmError
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.files.locks import held
from calm_pde.progress import console_of


@dataclass(frozen=True, repr=False)
class Comparison:
    """What is known of a suite's runs: the rows of each data set, one per model, over all seeds."""

    suite: Suite
    path: Path
    """The folder of all runs, with table.html, table.md and table.csv."""
    rows: dict[str, list[Row]]
    searches: dict[str, list[Searched]] = field(default_factory=dict)
    """How the models were searched on each data set, in suites with a search."""

    @property
    def table(self) -> str:
        """All rows with all numbers, as Markdown."""
        return markdown(self.suite, self.rows, self.searches)

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
        steps: train every run for so many steps, those of a search too, instead of the suite's minutes or epochs.
        only: names of models and data sets; the others are left for later.
        index: do one run alone, by its place in the list of all; not in suites with a search.
        seeds: 0, 1, … so many of them, instead of the suite's.
        minutes: train every run for so long, instead of the suite's minutes, steps or epochs; those of a search are as long
            as it says.
        workers: how many runs go on side by side, each in a process of its own.
        console: where to tell of the progress; by default nothing is said.
    """
    name = suite.name if isinstance(suite, Suite) else os.fspath(suite)
    folder = campaign_folder(name, small) if out is None else Path(out)
    found = (suite if isinstance(suite, Suite) else load_suite(name)).with_changes(seeds, minutes)
    job = SuiteJob(found, folder, console_of(console), small=small, steps=steps)
    job.run(tuple(only), index, workers)
    return Comparison(found, folder, job.rows(), job.searches())


def campaign_folder(suite: str, small: bool) -> Path:
    """Where a campaign goes that nobody gave a folder."""
    return Path("bench") / f"{Path(suite).stem}{'_small' if small else ''}"


class SuiteJob:
    """Runs a suite, or one of its runs, and writes table.html, table.md and table.csv after each."""

    def __init__(self, suite: Suite, out: Path, console: Console, *, small: bool = False, steps: int | None = None) -> None:
        self.suite, self.out, self.console = suite, out, console
        self.trials = trials(suite, out, small, steps)
        self.campaign = Campaign(self.trials, out, console, self.write_tables)
        search = None if small else suite.search
        self.phases = None if search is None else Phases(suite, search, self.campaign, steps)

    def run(self, only: tuple[str, ...] = (), index: int | None = None, workers: int = 1) -> None:
        """What is left to do of the runs that are named, or of the one at a place of the list.

        A whole campaign has its folder for itself; jobs of an array share it, and each has the folder of its run.
        """
        wanted = chosen(self.trials, only)
        if workers < 1:
            raise CalmError(f"workers: expected at least 1, got {workers}.")
        if index is not None:
            if self.phases is not None:
                raise CalmError(
                    f"index: the runs of {self.suite.name} depend on what its search finds, and none has a place of its own. "
                    "Say --only with models or data sets, or --workers."
                )
            if not 0 <= index < len(wanted):
                raise CalmError(f"index: expected 0 to {len(wanted) - 1}, as --list shows them, got {index}.")
            wanted = wanted[index : index + 1]
        make_folder(self.out)
        with held(self.out) if index is None else nullcontext():
            if self.phases is None:
                self.campaign.run(wanted, workers)
            else:
                self._run_phases(self.phases, wanted, workers)
        self._say(f"The tables are in {self.out / 'table.html'}, .md and .csv")

    def _run_phases(self, phases: Phases, wanted: Sequence[Trial], workers: int) -> None:
        """One phase after the other, each with what those before have found."""
        meant = {(trial.data, trial.model) for trial in wanted}
        phases.read()
        for name, listed in (
            ("Every model with its own settings", phases.own_runs),
            ("The search", phases.search_runs),
            ("With the chosen settings", phases.chosen_runs),
        ):
            todo = [trial for trial in listed() if (trial.data, trial.model) in meant]
            final = [trial for trial in todo if phases.stands(trial)]
            for trial in final:
                self._say(f"{words(trial)}: failed before, and what was chosen without it has begun")
            if todo:
                self._say(f"{name}:")
                self.campaign.run([trial for trial in todo if trial not in final], workers)
                phases.read()
        for line in phases.waiting():
            self._say(line)
        self.write_tables()

    def show_runs(self) -> None:
        """A line per run: its place, what it is, and what is known of it."""
        if self.phases is not None:
            self.phases.read()
        for place, trial in enumerate(self.trials if self.phases is None else self.phases.known()):
            shown = f"{place:3d}  {words(trial)} ({trial.preset}): {_state(self.campaign.of(trial))}"
            self._say(shown)
        for line in self.phases.waiting() if self.phases is not None else ():
            self._say(line)

    def rows(self) -> dict[str, list[Row]]:
        """Of each data set, from all results that are there."""
        if self.phases is None:
            return rows(self.suite, self.trials, self.campaign.found())
        self.phases.read()
        settings = {pair: self.phases.label(pair) for pair in self.phases.pairs}
        return rows(self.suite, self.phases.shown(), self.phases.found, settings)

    def searches(self) -> dict[str, list[Searched]]:
        """Of each data set, from all results that are there; nothing in suites without a search."""
        if self.phases is None:
            return {}
        self.phases.read()
        return self.phases.searches()

    def write_tables(self) -> None:
        make_folder(self.out)
        table, searches = self.rows(), self.searches()
        contents = {
            "table.html": page(self.suite, table, searches),
            "table.md": markdown(self.suite, table, searches),
            "table.csv": comma_separated(table),
        }
        if searches:
            contents["search.csv"] = search_table.comma_separated(searches)
        for name, text in contents.items():
            replace_file(self.out / name, text.encode())

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)


def _state(known: Outcome | None) -> str:
    if isinstance(known, Result):
        return f"test error {known.error:.4f}"
    if isinstance(known, Validated):
        return f"validation error {known.validation:.4f}"
    return "not run yet" if known is None else f"failed: {known.reason}"
