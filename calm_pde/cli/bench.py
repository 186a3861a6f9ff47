"""`calm bench`: models compared on data sets, or in time and memory alone."""

from __future__ import annotations

from pathlib import Path

import tyro
from rich.console import Console

from calm_pde.bench.measured.speed import speed
from calm_pde.bench.runs.job import SuiteJob, campaign_folder, compare
from calm_pde.bench.runs.suite import load_suite


def bench(
    suite: tyro.conf.Positional[str],
    small: bool = False,
    out: Path | None = None,
    only: tuple[str, ...] = (),
    list: bool = False,
    index: int | None = None,
    prepare: bool = False,
    steps: int | None = None,
    seeds: int | None = None,
    minutes: float | None = None,
    workers: int = 1,
    repeats: int = 5,
) -> None:
    """Train many models on many data sets and compare them; or, with `speed`, their time and memory alone.

    Interrupted and started again, it goes on; finished runs are kept.

    Args:
        suite: A shipped suite, a .yaml file of your own, or `speed`.
        small: Everything small: tiny data, small presets, a few steps.
        out: The folder of the campaign; by default bench/SUITE.
        only: Names of models and data sets; the others are left for later.
        list: Say which runs there are, and what is known of them.
        index: Do one run of the list, for an array of jobs; not in suites with a search.
        prepare: Only make the data files that are missing.
        steps: Train every run for so many steps, those of a search too, instead of the suite's minutes or epochs.
        seeds: How many seeds every model is trained with, instead of the suite's.
        minutes: Train every run for so long, instead of the suite's minutes, steps or epochs; not those of a search.
        workers: How many runs go on side by side.
        repeats: speed: how often each step is timed.
    """
    folder, console = out or campaign_folder(suite, small), Console()
    if suite == "speed":
        written = speed(folder, console, small=small, repeats=repeats, only=only)
        console.print(f"The table is in {written}", highlight=False, soft_wrap=True)
        return
    if not (list or prepare):
        lengths = {"steps": steps, "seeds": seeds, "minutes": minutes}
        compare(suite, folder, small=small, only=only, index=index, workers=workers, console=console, **lengths)
        return
    job = SuiteJob(load_suite(suite).with_changes(seeds, minutes), folder, console, small=small, steps=steps)
    if list:
        job.show_runs()
    else:
        job.campaign.prepare()
