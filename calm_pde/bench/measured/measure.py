"""Time and memory of a finished run, in a process of its own: `python -m calm_pde.bench.measured.measure RUN OUT`."""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

import torch
from rich.console import Console

from calm_pde.bench.measured.clock import clock
from calm_pde.bench.measured.memory import peak_of
from calm_pde.bench.measured.process import answer_of
from calm_pde.config import Config
from calm_pde.data.dataset import Dataset
from calm_pde.data.windows import grouped, whole_windows
from calm_pde.files.folders import replace_file
from calm_pde.surrogate.evaluate import answers, data_of, for_surrogate
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.threads import threads
from calm_pde.train.config import Recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show

BATCH = 8
REPEATS = 5


class Measured(Config):
    """Of one run; bytes are beyond what the process held before, and None where the system does not tell them."""

    inference_seconds: float
    """Per trajectory, in a batch of up to 8; the median of 5."""
    inference_bytes: int | None
    step_bytes: int | None
    """Of a training step at the end of the schedule."""
    batch: int


def measured(run: Path) -> Measured:
    """In a process of its own."""
    return Measured.model_validate_json(answer_of("calm_pde.bench.measured.measure", str(run)))


def measure(run: Path) -> Measured:
    """In this process, with the threads that the run was given."""
    surrogate = Surrogate.load(run)
    recipe = Recipe.model_validate(surrogate.description.provenance["recipe"])
    with threads(recipe.train.threads):
        return _measured(surrogate, recipe, run)


def _measured(surrogate: Surrogate, recipe: Recipe, run: Path) -> Measured:
    if torch.cuda.is_available():
        surrogate.model.cuda()
    file, stride = data_of(surrogate, run)
    data = Dataset(file, "test", fields=surrogate.description.field_names, frame_stride=stride)
    windows = whole_windows(min(BATCH, len(data)), data.num_frames)
    batch = for_surrogate(surrogate, data, next(iter(data.batches(grouped(windows, BATCH)))))
    peak = peak_of(lambda: answers(surrogate, batch))
    taken, now = [], clock(recipe.train.threads)
    for _ in range(REPEATS):
        start = now()
        answers(surrogate, batch)
        taken.append(now() - start)
    return Measured(
        inference_seconds=statistics.median(taken) / len(batch),
        inference_bytes=peak,
        step_bytes=_step_bytes(recipe),
        batch=len(batch),
    )


def _step_bytes(recipe: Recipe) -> int | None:
    """The largest of the stages."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(recipe, Path(folder) / "run", Show(Console(quiet=True)))
        found = []
        for span in trainer.schedule.spans:
            trainer.start_at(span.end - 1)
            batch, weight = next(trainer.batches(trainer.groups(span.end - 1)[:1]))
            found.append(peak_of(lambda batch=batch, weight=weight: trainer.step(batch, weight)))
    return max((bytes_ for bytes_ in found if bytes_ is not None), default=None)


def main(arguments: list[str]) -> None:
    run, out = map(Path, arguments)
    replace_file(out, measure(run).model_dump_json().encode())


if __name__ == "__main__":
    main(sys.argv[1:])
