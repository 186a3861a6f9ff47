"""What a user sees of a training: a bar on a terminal or in a notebook, one line per epoch elsewhere; and its loggers."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from calm_pde.models.live_bytes import LiveBytes, process_bytes
from calm_pde.models.size import num_parameters
from calm_pde.progress import draws_bars
from calm_pde.train.config import conditions_left_out
from calm_pde.train.loggers import LOGGERS
from calm_pde.train.loggers.logger import Logger
from calm_pde.train.rule.procedure import fitting_batch
from calm_pde.train.stages import freeze

if TYPE_CHECKING:
    from calm_pde.train.loop import Trainer


_FEW_STEPS = 5  # of an epoch


class Show:
    """Speaks of a training on a console; only the first of several processes does."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar: Progress | None = None
        self._task = None
        self._start = self._epoch_start = time.perf_counter()
        self._windows = 0
        self._loggers: list[Logger] = []
        self._finished = False

    def begin(self, trainer: Trainer) -> None:
        if not trainer.processes.first:
            self.console = Console(quiet=True)
        model, data, config = trainer.model, trainer.data, trainer.config
        words = [f"{trainer.recipe.name}: {num_parameters(model):,} parameters", f"{len(data)} training trajectories"]
        words.append(f"{config.epochs} epochs, {trainer.num_steps} steps")
        steps = None if trainer.surrogate.task != "rollout" else data.num_frames - 1
        points, batch = int(data.file.num_points.max()), min(config.batch_size, len(data))
        known = model.predicted_peak(points, -(-batch // config.accumulate), steps, own_meshes=data.points is None)
        if config.lead_times == "all" or config.gradient_loss:  # of which a model knows nothing
            known = None
        seconds, counted = self._estimate(trainer, known is None)
        words.append(f"at most {(counted if known is None else known) / 2**20:.0f} MiB a step")
        words.append(f"about {_duration(seconds)}")
        self._say(", ".join(words))
        self._tell_of_conditions(trainer)
        self._tell_of_few_steps(trainer)
        if trainer.processes.first:
            settings = trainer.recipe.model_dump(mode="json")
            for name in dict.fromkeys(config.log):
                self._loggers.append(LOGGERS[name](trainer.run, trainer.recipe.name, settings, trainer.position.step))
        self.start_bar(trainer)

    def start_bar(self, trainer: Trainer) -> None:
        """Of all steps, on a terminal."""
        if draws_bars(self.console):
            columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
            self._bar = Progress(*columns, console=self.console)
            self._bar.start()
            self._task = self._bar.add_task("training", total=trainer.num_steps, completed=trainer.position.step)
        self._start = self._epoch_start = time.perf_counter()

    def step(self, trainer: Trainer, loss: float) -> None:
        self._windows += trainer.config.batch_size
        self._log(trainer, {"loss": loss, "learning rate": trainer.optimizer.rate})
        if self._bar is not None and self._task is not None:
            rate = self._windows / max(1e-9, time.perf_counter() - self._start)
            best = trainer.position.best
            told = "".join(f" {_words(name)} {value}" for name, value in trainer.schedule.told(trainer.position.epoch).items())
            words = f"epoch {trainer.position.epoch} loss {loss:.4f} best {best:.4f}{told} {rate:.0f} samples/s"
            self._bar.update(self._task, completed=trainer.position.step, description=words)

    def epoch(self, trainer: Trainer, losses: list[float], error: float | None) -> None:
        now = time.perf_counter()
        if error is not None:
            self._log(trainer, {"validation": error})
        if self._bar is None:
            done, epochs = trainer.position.epoch, trainer.config.epochs
            mean = f"{sum(losses) / len(losses):.4f}" if losses else "–"
            shown = "" if error is None else f", validation {error:.4f}"
            rate = trainer.optimizer.rate
            told = "".join(f", {_words(name)} {value}" for name, value in trainer.schedule.told(done - 1).items())
            left = (now - self._start) / max(1, trainer.position.step) * (trainer.num_steps - trainer.position.step)
            self._say(
                f"epoch {done}/{epochs}: loss {mean}{shown}{told}, learning rate {rate:.2e}, "
                f"{now - self._epoch_start:.1f} s, {_duration(left)} left"
            )
        self._epoch_start = now

    def end(self, trainer: Trainer) -> None:
        self._finished = True
        self.close()
        best = trainer.position
        words = f"best validation error {best.best:.4f} after epoch {best.best_epoch}; " if trainer.best else ""
        self._say(f"{words}the surrogate is in {trainer.run / 'surrogate'}")

    def resumed(self, trainer: Trainer) -> None:
        self._say(f"going on from step {trainer.position.step} of {trainer.num_steps} in {trainer.run}")

    def tell(self, text: str) -> None:
        self._say(text)

    def warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def close(self) -> None:
        while self._loggers:
            self._loggers.pop().close(self._finished)
        if self._bar is not None:
            self._bar.refresh()  # a notebook is not shown the end otherwise
            self._bar.stop()
            self._bar = None

    def _tell_of_conditions(self, trainer: Trainer) -> None:
        """What the model is given beside a state, and what of the file it is not."""
        told = [name for names in trainer.surrogate.conditions.values() for name in names]
        left_out = conditions_left_out(trainer.recipe, trainer.data.file.description)
        words = [f"told beside the state: {', '.join(told)}"] if told else []
        words += [f"not told, by data.conditions: {', '.join(left_out)}"] if left_out else []
        if words:
            self._say("; ".join(words))

    def _tell_of_few_steps(self, trainer: Trainer) -> None:
        """An epoch of a handful of steps learns little, and is what most recipes count in."""
        config, steps = trainer.config, trainer.epoch_steps
        windows = len(trainer.data) * config.windows_per_trajectory
        fitting = fitting_batch(windows)
        if steps < _FEW_STEPS and fitting < config.batch_size and config.batches_per_epoch is None:
            self.warn(
                f"{windows} windows in batches of {config.batch_size} are {steps} step{'s' if steps > 1 else ''} an epoch, "
                f"{trainer.num_steps:,} in all {config.epochs} epochs. train.batch_size {fitting} would make "
                f"{-(-windows // fitting)} an epoch."
            )

    def _log(self, trainer: Trainer, values: dict[str, float]) -> None:
        for logger in self._loggers:
            logger.add(values, trainer.position.step)

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def _estimate(self, trainer: Trainer, count: bool) -> tuple[float, int]:
        """Seconds to the end and bytes of a step: a stage's first and last kind of step are tried, which leaves no trace."""
        seconds, peak = 0.0, 0
        for span in trainer.schedule.spans:
            epochs = range(max(trainer.position.epoch, span.begin), span.end)
            if epochs:
                (short, _), (long, alive) = (_tried(trainer, epoch, count) for epoch in (epochs[0], epochs[-1]))
                fed = [trainer.schedule.self_fed(epoch) for epoch in epochs]
                each = np.interp(fed, [fed[0], max(fed[-1], fed[0] + 1)], [short, long])
                seconds, peak = seconds + trainer.epoch_steps * float(each.sum()), max(peak, alive)
        return seconds, peak


def _tried(trainer: Trainer, epoch: int, count: bool) -> tuple[float, int]:
    """Seconds of a step of this epoch, the second time, and the bytes that it takes, counted the first time where asked for."""
    batch, weight = next(trainer.batches(trainer.groups(epoch)[:1]))
    parts = list(batch.parts(trainer.config.accumulate))
    freeze(trainer.model, trainer.schedule.span(epoch).stage)
    seconds, live = 0.0, LiveBytes()
    for counted in (live if count else nullcontext(), nullcontext()):
        start = time.perf_counter()
        with counted:
            (trainer.objective.losses(parts[0], epoch).sum() * weight).backward()
        seconds = time.perf_counter() - start
    freeze(trainer.model, trainer.schedule.span(trainer.position.epoch).stage)
    trainer.model.zero_grad(set_to_none=True)
    return seconds * len(parts), process_bytes(live)


def _words(name: str) -> str:
    return name.replace("_", "-")


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
