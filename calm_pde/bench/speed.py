"""`calm bench speed`: training steps and inferences of all models in turns, and their memory in fresh processes."""

from __future__ import annotations

import datetime
import json
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from rich.console import Console

from calm_pde.bench.contenders import (
    CONTENDERS,
    FULL,
    SMALL,
    Contender,
    Setting,
    inference,
    trainer_of,
    training_step,
    write_data,
)
from calm_pde.bench.memory import keep_freed_memory, limit_memory, peak_of
from calm_pde.bench.process import answer_of
from calm_pde.bench.speed_table import Speed, speed_markdown
from calm_pde.bench.timing import interleaved
from calm_pde.config import suggestion
from calm_pde.errors import CalmError
from calm_pde.folders import make_folder, replace_file
from calm_pde.models.size import num_parameters
from calm_pde.origin import commit, machine
from calm_pde.progress import progress

SHARE = 0.8
"""Of the memory that is free: what one step may take."""


def speed(out: Path, console: Console, *, small: bool = False, repeats: int = 5, only: Sequence[str] = ()) -> Path:
    """Measure, and write a dated Markdown file with machine and commit.

    Args:
        repeats: turns of the interleaved timings; medians are shown.
        only: kinds of models; CALM-PDE is always there, since all ratios are to it.
    """
    if repeats < 1:
        raise CalmError(f"repeats: expected at least 1, got {repeats}.")
    known = sorted({contender.kind for contender in CONTENDERS})
    for kind in only:
        if kind not in known:
            raise CalmError(f"only: there is no model {kind!r}. {suggestion(kind, known)}")
    make_folder(out)
    setting = SMALL if small else FULL
    wanted = [contender for contender in CONTENDERS if not only or contender.kind in (*only, "calm")]
    found = {contender.name: Speed(name=contender.name, what=contender.what) for contender in wanted}
    with progress("memory", console) as show:
        for done, contender in enumerate(wanted, start=1):
            _measure_memory(contender, small, found[contender.name])
            show(done, len(wanted))
    fitting = [contender for contender in wanted if found[contender.name].problem is None]
    with tempfile.TemporaryDirectory() as folder:
        allocator = keep_freed_memory()
        _measure_times(fitting, setting, Path(folder), found, repeats, console)
    now = datetime.datetime.now(datetime.UTC)
    head = [
        f"commit {commit()}, seed 0, median of {repeats} interleaved",
        f"{machine()}, Python {platform.python_version()}, torch {torch.__version__}; {allocator}, for all",
    ]
    path = out / f"{now:%Y-%m-%d}_speed.md"
    text = speed_markdown(list(found.values()), setting, head, f"{now:%Y-%m-%d %H:%M} UTC")
    replace_file(path, text.encode())
    replace_file(path.with_suffix(".json"), json.dumps([one.model_dump() for one in found.values()], indent=1).encode())
    return path


def _measure_memory(contender: Contender, small: bool, found: Speed) -> None:
    """In a process of its own; what doesn't fit there is said, and left out of the timings."""
    try:
        answer = json.loads(answer_of("calm_pde.bench.speed", contender.name, str(small)))
    except CalmError as error:
        found.problem = str(error)
        return
    found.parameters, found.step_bytes = answer["parameters"], answer["step"]
    found.inference_bytes = answer["inference"]


def _measure_times(
    contenders: Sequence[Contender], setting: Setting, folder: Path, found: dict[str, Speed], repeats: int, console: Console
) -> None:
    files = {scattered: write_data(setting, folder, scattered).path for scattered in (False, True)}
    trainers = {one.name: trainer_of(one, setting, files[one.scattered], folder) for one in contenders}
    steps = {one.name: training_step(trainers[one.name], one) for one in contenders}
    with progress("training steps", console) as show:
        for name, taken in interleaved(steps, repeats, show).items():
            found[name].step_seconds = taken
    answering = [one.name for one in contenders if one.answers]
    for horizon in setting.horizons:
        programs = {name: inference(trainers[name], horizon) for name in answering}
        with progress(f"inference, {horizon} steps", console) as show:
            for name, taken in interleaved(programs, repeats, show).items():
                found[name].inference_seconds[horizon] = statistics.median(taken)


def measure_peaks(contender: Contender, setting: Setting) -> dict[str, int | None]:
    """In this process, which takes no more than its share of the memory."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_data(setting, Path(folder), contender.scattered).path
        trainer = trainer_of(contender, setting, file, Path(folder))
        limit_memory(SHARE)
        parameters = num_parameters(trainer.model)
        answer = peak_of(inference(trainer, setting.horizons[-1])) if contender.answers else None
        step = peak_of(training_step(trainer, contender))
    return {"parameters": parameters, "step": step, "inference": answer}


def main(arguments: list[str]) -> None:
    name, small, out = arguments
    contender = next(contender for contender in CONTENDERS if contender.name == name)
    try:
        found = measure_peaks(contender, SMALL if small == "True" else FULL)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "alloc" not in str(error):
            raise
        sys.exit(f"does not fit into {SHARE:.0%} of the free memory")
    replace_file(Path(out), json.dumps(found).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
