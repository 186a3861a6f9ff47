"""`calm generate`: data files by our own solvers."""

from __future__ import annotations

from rich.console import Console

from calm_pde.cli.convert import Output
from calm_pde.config import Seed
from calm_pde.solvers.problem import Problem
from calm_pde.train.making import make_data


class Generation(Output):
    samples: int = 100
    """How many trajectories; 80 % of them for training, 10 % for validation, 10 % for the test."""
    seed: Seed = 0
    """The same seed gives the same data."""
    processes: int | None = None
    """By default one per core."""


def generate_data(kind: str, problem: Problem, job: Generation) -> None:
    """Make a data file with our own solvers; an interrupted job goes on where it was."""
    make_data(
        problem,
        job.out,
        Console(),
        samples=job.samples,
        seed=job.seed,
        processes=job.processes,
        overwrite=job.overwrite,
    )
