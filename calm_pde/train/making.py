"""Making the data of a recipe by our own solvers, where its file is missing."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from calm_pde.config import suggestion
from calm_pde.data.generate import generate, kind_of
from calm_pde.data.storage import DataFile
from calm_pde.errors import CalmError
from calm_pde.progress import progress
from calm_pde.records.trajectory import SPLITS
from calm_pde.solvers import PROBLEMS
from calm_pde.solvers.problem import Problem
from calm_pde.train.config import DataConfig


def make_missing(data: DataConfig, console: Console) -> None:
    """The data file, made where it is missing; of several processes the first makes it."""
    wanted, out = data.generate, data.file
    if wanted is None:
        return
    while not out.exists() and int(os.environ.get("RANK", "0")):
        time.sleep(1.0)
    if out.exists():
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    if wanted.kind not in PROBLEMS:
        raise CalmError(f"data.generate.kind: there is no {wanted.kind!r}. {suggestion(wanted.kind, list(PROBLEMS))}")
    options = " ".join(f"--{key.replace('_', '-')} {_words(value)}" for key, value in wanted.problem.items())
    command = f"calm generate {wanted.kind} --samples {wanted.samples} --seed {wanted.seed} {options} --out {out}"
    console.print(f"{out} is missing; making it: {command}", highlight=False, soft_wrap=True)
    make_data(PROBLEMS[wanted.kind](**wanted.problem), out, console, samples=wanted.samples, seed=wanted.seed)


def make_data(problem: Problem, out: Path, console: Console, *, samples: int, **options: Any) -> DataFile:
    """`generate` with its progress and its time told."""
    start = time.perf_counter()
    with progress(f"generate {kind_of(problem)}", console) as show:
        file = generate(problem, out, samples=samples, progress=show, **options)
    console.print(f"{samples} trajectories in {time.perf_counter() - start:.0f} s", highlight=False)
    announce(file, console)
    return file


def announce(file: DataFile, console: Console) -> None:
    sizes = ", ".join(f"{len(file.indices(split))} {split}" for split in SPLITS)
    text = f"{file.path}: {len(file)} trajectories ({sizes}); look at it with: calm check {file.path}"
    console.print(text, highlight=False, soft_wrap=True)


def _words(value: Any) -> str:
    """As it is written on a command line."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
