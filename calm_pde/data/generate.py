"""Generating a data file: many trajectories over processes, each kept as soon as it is done, so that a killed job goes on.

Finished trajectories wait in a folder beside the file; the last step streams them into it and removes the folder.
"""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calm_pde.config import suggestion
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.errors import FileError, InputError
from calm_pde.files.atomic import check_free, replacing
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.files.locks import held
from calm_pde.origin import origin
from calm_pde.progress import barred
from calm_pde.records.trajectory import Source, Trajectory, generated_split
from calm_pde.solvers import PROBLEMS
from calm_pde.solvers.problem import Problem
from calm_pde.threads import threads

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_ARRAYS = ("fields", "points", "cells", "node_type", "features", "parameters", "signals", "signal_times")


@barred("generate")
def generate(
    problem: Problem | str,
    out: str | os.PathLike[str],
    *,
    samples: int = 100,
    seed: int = 0,
    processes: int | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **settings: Any,
) -> DataFile:
    """Draw and solve `samples` trajectories; the same seed and settings give the same content fingerprint.

    Interrupted, the same call goes on where it was.

    Args:
        problem: a problem of `calm_pde.solvers`, or the name of one, whose settings then follow by keyword.
        samples: 80 % of them for training, 10 % for validation, 10 % for the test.
        processes: by default one per core.
        progress: called with the number done and the total.
    """
    out, problem = Path(out), problem_of(problem, settings)
    if samples < 1:
        raise InputError("samples", expected="at least 1", got=str(samples), fix="Say how many trajectories you want.")
    if not 0 <= seed < 2**63:
        raise InputError("seed", expected="0 ≤ seed < 2⁶³", got=f"{seed:.6g}", fix="0 is a good start.")
    if processes is not None and processes < 1:
        raise InputError("processes", expected="at least 1", got=str(processes), fix="Leave it out for one per core.")
    check_free([out], overwrite)
    description = problem.description()
    asked = {"kind": kind_of(problem), "problem": problem.model_dump(mode="json"), "samples": samples, "seed": seed}
    with _parts_folder(out, asked, overwrite) as folder:
        waiting = [index for index in range(samples) if not _part(folder, index).exists()]
        done = samples - len(waiting)
        if progress is not None:
            progress(done, samples)
        groups = [waiting[start : start + problem.together] for start in range(0, len(waiting), problem.together)]
        for group in _solved(problem, seed, groups, folder, processes or os.cpu_count() or 1):
            done += len(group)
            if progress is not None:
                progress(done, samples)
        provenance = description.provenance | {"generate": asked, "versions": origin()["versions"]}
        source = Source(dataclasses.replace(description, provenance=provenance), _parts(folder, samples), samples)
        file = write(source, out, overwrite)
        shutil.rmtree(folder, ignore_errors=True)
    return file


def problem_of(problem: Problem | str, settings: dict[str, Any] | None = None) -> Problem:
    """The problem itself, or the one of a name with these settings."""
    if isinstance(problem, str):
        if problem not in PROBLEMS:
            known = suggestion(problem, list(PROBLEMS))
            raise InputError("problem", expected="a problem or the name of one", got=repr(problem), fix=known)
        return PROBLEMS[problem](**settings or {})
    if settings:
        raise InputError(
            ", ".join(settings), expected="settings beside the name of a problem", got="a problem", fix="Put them into it."
        )
    return problem


def kind_of(problem: Problem) -> str:
    """The name of a problem; that of its class where it is not one of ours."""
    return next((kind for kind, form in PROBLEMS.items() if type(problem) is form), type(problem).__name__)


@contextmanager
def _parts_folder(out: Path, settings: dict[str, object], overwrite: bool) -> Iterator[Path]:
    """Where finished trajectories wait, for this process alone; only those of the same settings are taken up again.

    A folder in which none waits is in nobody's way: it goes when a job fails, and one that a kill left is taken over.
    """
    folder = out.with_name(f"{out.name}.parts")
    make_folder(folder)
    with held(folder):
        try:
            check_free([out], overwrite)  # another job may have made it just before
            record, wanted = folder / "settings.json", json.dumps(settings).encode()
            if _any_finished(folder) and record.exists() and record.read_bytes() != wanted:
                raise FileError(
                    folder,
                    "holds trajectories of another, interrupted job with other settings",
                    fix="Finish that job with its own settings, or remove the folder.",
                )
            replace_file(record, wanted)
            yield folder
        finally:
            if not _any_finished(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _any_finished(folder: Path) -> bool:
    return any(folder.glob("[0-9]*.npz"))


def _solved(problem: Problem, seed: int, groups: list[list[int]], folder: Path, processes: int) -> Iterator[list[int]]:
    """Each group once its trajectories are on disk; one process and one thread per core."""
    if processes == 1 or len(groups) < 2:
        with threads(1):
            for group in groups:
                yield _solve(problem, seed, group, folder)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(processes, len(groups)), mp_context=context, initializer=_one_thread)
    try:
        with _one_thread_each(), _script_unseen(problem):
            waiting = [pool.submit(_solve, problem, seed, group, folder) for group in groups]
        for future in as_completed(waiting):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _one_thread() -> None:
    torch.set_num_threads(1)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes that start here compute with one thread in numpy too; small products with several are many times slower."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _script_unseen(problem: Problem) -> Iterator[None]:
    """Processes that start here do not run the user's script again, as Python would, unless the problem stands in it."""
    main = sys.modules["__main__"]
    hidden = {} if type(problem).__module__ == "__main__" else {"__file__": None, "__spec__": None}
    before = {name: getattr(main, name) for name in hidden if hasattr(main, name)}
    vars(main).update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del vars(main)[name]
        vars(main).update(before)


def _solve(problem: Problem, seed: int, group: list[int], folder: Path) -> list[int]:
    draws = [np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,))) for index in group]
    start = time.perf_counter()
    for index, trajectory in zip(group, problem.solve(draws), strict=True):
        seconds = (time.perf_counter() - start) / len(group) if np.isnan(trajectory.seconds) else trajectory.seconds
        arrays = {name: getattr(trajectory, name) for name in _ARRAYS}
        kept = {name: value for name, value in arrays.items() if value is not None}
        with replacing(_part(folder, index)) as part, part.open("wb") as file:
            np.savez(file, seconds=seconds, **kept)
    return group


def _part(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.npz"


def _parts(folder: Path, samples: int) -> Iterator[Trajectory]:
    for index in range(samples):
        with np.load(_part(folder, index), allow_pickle=False) as found:
            arrays = {name: found[name] for name in _ARRAYS if name in found}
            yield Trajectory(split=generated_split(index, samples), seconds=float(found["seconds"]), **arrays)
