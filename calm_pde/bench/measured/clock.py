"""What time is in a campaign, and the time of each validation, which the loop's own record leaves out."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console

from calm_pde.progress import draws_bars
from calm_pde.train.loop import Trainer
from calm_pde.train.record import Record
from calm_pde.train.show import Show

CLOCK = "clock.jsonl"


def clock(threads: int | None) -> Callable[[], float]:
    """What counts as time of a run: with one thread on a CPU that of its core, so that what else the machine does takes
    nothing from it; otherwise that of the wall."""
    return time.process_time if threads == 1 and not torch.cuda.is_available() else time.perf_counter


class ClockShow(Show):
    """A bar on a terminal, nothing elsewhere; RUN/clock.jsonl has a line per epoch with the seconds of training so far."""

    def __init__(self, console: Console, run: Path) -> None:
        super().__init__(console if draws_bars(console) else Console(quiet=True))
        self._told, self._run = console, run
        self._clock: Record | None = None

    def begin(self, trainer: Trainer) -> None:
        self._clock = Record(self._run / CLOCK, trainer.position.step)
        self.start_bar(trainer)

    def epoch(self, trainer: Trainer, losses: list[float], error: float | None) -> None:
        super().epoch(trainer, losses, error)
        if self._clock is not None:
            self._clock.add(step=trainer.position.step, seconds=trainer.seconds, validation=error)

    def resumed(self, trainer: Trainer) -> None:
        text = f"going on from step {trainer.position.step} of {trainer.num_steps} in {trainer.run}"
        self._told.print(text, highlight=False, soft_wrap=True, markup=False)

    def warn(self, text: str) -> None:
        self._told.print(f"warning: {text}", highlight=False, soft_wrap=True, markup=False)

    def end(self, trainer: Trainer) -> None:
        self.close()
