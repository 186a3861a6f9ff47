"""`calm bench speed`: training steps and inferences of all models in turns, and their memory in fresh processes."""

from __future__ import annotations

import datetime
import json
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from calm_pde.bench.measured.contenders import (
    FULL,
    SMALL,
    Contender,
    Setting,
    contenders,
    inference,
    trainer_of,
    training_step,
    write_data,
)
from calm_pde.bench.measured.memory import keep_freed_memory, limit_memory, peak_of
from calm_pde.bench.measured.process import answer_of
from calm_pde.bench.measured.timing import interleaved
from calm_pde.bench.shown.speed_figure import speed_picture
from calm_pde.bench.shown.speed_table import Speed, speed_markdown
from calm_pde.config import suggestion
from calm_pde.errors import CalmError
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.files.locks import held
from calm_pde.models import OURS
from calm_pde.models.size import num_parameters
from calm_pde.origin import commit, machine
from calm_pde.progress import progress

SHARE = 0.8
"""Of the memory that is free: what one step may take."""


def speed(out: Path, console: Console, *, small: bool = False, repeats: int = 5, only: Sequence[str] = ()) -> Path:
    """Measure, and write a dated Markdown file with machine and commit, and a picture. Interrupted, the same call goes on.

    Args:
        repeats: turns of the interleaved timings; medians are shown.
        only: kinds of models; CALM-PDE is always there, since all ratios are to it.
    """
    if repeats < 1:
        raise CalmError(f"repeats: expected at least 1, got {repeats}.")
    everyone = contenders()
    known = sorted({contender.kind for contender in everyone})
    for kind in only:
        if kind not in known:
            raise CalmError(f"only: there is no model {kind!r}. {suggestion(kind, known)}")
    wanted = [contender for contender in everyone if not only or contender.kind in (*only, OURS)]
    make_folder(out)
    with held(out):
        return _measured(out, console, wanted, small, repeats)


def _measured(out: Path, console: Console, wanted: Sequence[Contender], small: bool, repeats: int) -> Path:
    setting = SMALL if small else FULL
    head = [
        f"commit {commit()}, seed 0, median of {repeats} interleaved",
        f"{machine()}, Python {platform.python_version()}, torch {torch.__version__}",
    ]
    notes = _Notes(out / "unfinished.json", [*head, f"small: {small}", *(contender.name for contender in wanted)], wanted)
    found = notes.found
    with progress("memory", console) as show:
        for done, contender in enumerate(wanted, start=1):
            if found[contender.name].parameters is None:
                _measure_memory(contender, small, found[contender.name])
                notes.save()
            show(done, len(wanted))
    fitting = [contender for contender in wanted if found[contender.name].problem is None]
    with tempfile.TemporaryDirectory() as folder:
        head[-1] += f"; {keep_freed_memory()}, for all"
        _measure_times(fitting, setting, Path(folder), notes, repeats, console)
    now = datetime.datetime.now(datetime.UTC)
    path = out / f"{now:%Y-%m-%d}_speed.md"
    text = speed_markdown(list(found.values()), setting, head, f"{now:%Y-%m-%d %H:%M} UTC")
    replace_file(path, text.encode())
    replace_file(path.with_suffix(".json"), json.dumps(_plain(found.values()), indent=1).encode())
    shown = [one for one in found.values() if one.problem is None]
    replace_file(path.with_suffix(".png"), speed_picture(shown, setting, machine()))
    notes.path.unlink()
    return path


class _Notes:
    """What is measured so far, kept in a file until the end, so that the same command goes on after an interrupt.

    Notes of another commit, machine or choice of models are not taken up.
    """

    def __init__(self, path: Path, heading: list[str], chosen: Sequence[Contender]) -> None:
        self.path, self.heading = path, heading
        fresh = [Speed(name=contender.name, what=contender.timed.what) for contender in chosen]
        self.found = {one.name: one for one in self._read() or fresh}

    def _read(self) -> list[Speed]:
        try:
            known = json.loads(self.path.read_bytes())
            return [Speed.model_validate(one) for one in known["found"]] if known["heading"] == self.heading else []
        except (OSError, ValueError, LookupError, TypeError):  # there are none, or they are damaged
            return []

    def save(self) -> None:
        replace_file(self.path, json.dumps({"heading": self.heading, "found": _plain(self.found.values())}).encode())


def _plain(found: Iterable[Speed]) -> list[dict[str, Any]]:
    return [one.model_dump(mode="json") for one in found]


def _measure_memory(contender: Contender, small: bool, found: Speed) -> None:
    """In a process of its own; what doesn't fit there is said, and left out of the timings."""
    try:
        answer = json.loads(answer_of("calm_pde.bench.measured.speed", contender.name, str(small)))
    except CalmError as error:
        found.problem = str(error)
        return
    found.problem, found.parameters, found.step_bytes = None, answer["parameters"], answer["step"]
    found.inference_bytes = answer["inference"]


def _measure_times(
    chosen: Sequence[Contender], setting: Setting, folder: Path, notes: _Notes, repeats: int, console: Console
) -> None:
    """Each part in turns of its own; parts that were measured before an interrupt are not repeated."""
    files = {scattered: write_data(setting, folder, scattered).path for scattered in (False, True)}
    trainers = {one.name: trainer_of(one, setting, files[one.timed.scattered], folder) for one in chosen}
    found = {one.name: notes.found[one.name] for one in chosen}
    if not all(one.step_seconds for one in found.values()):
        steps = {one.name: training_step(trainers[one.name], one) for one in chosen}
        with progress("training steps", console) as show:
            for name, taken in interleaved(steps, repeats, show).items():
                found[name].step_seconds = taken
        notes.save()
    answering = [one.name for one in chosen if one.timed.answers]
    for horizon in setting.horizons:
        if all(horizon in found[name].inference_seconds for name in answering):
            continue
        programs = {name: inference(trainers[name], horizon) for name in answering}
        with progress(f"inference, {horizon} steps", console) as show:
            for name, taken in interleaved(programs, repeats, show).items():
                found[name].inference_seconds[horizon] = statistics.median(taken)
        notes.save()


def measure_peaks(contender: Contender, setting: Setting) -> dict[str, int | None]:
    """In this process, which takes no more than its share of the memory."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_data(setting, Path(folder), contender.timed.scattered).path
        trainer = trainer_of(contender, setting, file, Path(folder))
        limit_memory(SHARE)
        parameters = num_parameters(trainer.model)
        answer = peak_of(inference(trainer, setting.horizons[-1])) if contender.timed.answers else None
        step = peak_of(training_step(trainer, contender))
    return {"parameters": parameters, "step": step, "inference": answer}


def main(arguments: list[str]) -> None:
    name, small, out = arguments
    contender = next(contender for contender in contenders() if contender.name == name)
    try:
        found = measure_peaks(contender, SMALL if small == "True" else FULL)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "alloc" not in str(error):
            raise
        sys.exit(f"does not fit into {SHARE:.0%} of the free memory")
    replace_file(Path(out), json.dumps(found).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
