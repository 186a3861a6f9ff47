"""What a user sees of a training: a bar on a terminal, one line per epoch elsewhere, and TensorBoard where asked for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from calm_pde.errors import ConfigError
from calm_pde.models import CalmPDE
from calm_pde.models.memory import predicted_peak

if TYPE_CHECKING:
    from calm_pde.train.loop import Trainer


class Show:
    """Speaks of a training on a console; only the first of several processes does."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bar: Progress | None = None
        self._task = None
        self._start = self._epoch_start = time.perf_counter()
        self._windows = 0
        self._board: Any = None

    def begin(self, trainer: Trainer) -> None:
        if not trainer.processes.first:
            self.console = Console(quiet=True)
        model, data, config = trainer.model, trainer.data, trainer.config
        count = sum(parameter.numel() for parameter in model.parameters())
        words = [f"{trainer.recipe.name}: {count:,} parameters", f"{len(data)} training trajectories"]
        words.append(f"{config.epochs} epochs, {trainer.num_steps} steps")
        if isinstance(model, CalmPDE):
            steps = None if trainer.surrogate.task != "rollout" else data.num_frames - 1
            points, batch = int(data.file.num_points.max()), min(config.batch_size, len(data))
            peak = predicted_peak(model, points, -(-batch // config.accumulate), steps, own_meshes=data.points is None)
            words.append(f"at most {peak / 2**20:.0f} MiB a step")
        words.append(f"about {_duration(self._estimate(trainer))}")
        self._say(", ".join(words))
        if config.tensorboard and trainer.processes.first:
            self._board = _board(trainer)
        if self.console.is_terminal:
            columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
            self._bar = Progress(*columns, console=self.console)
            self._bar.start()
            self._task = self._bar.add_task("training", total=trainer.num_steps, completed=trainer.position.step)
        self._start = self._epoch_start = time.perf_counter()

    def step(self, trainer: Trainer, loss: float) -> None:
        self._windows += trainer.config.batch_size
        if self._board is not None:
            self._board.add_scalar("loss", loss, trainer.position.step)
            self._board.add_scalar("learning rate", trainer.optimizer.param_groups[0]["lr"], trainer.position.step)
        if self._bar is not None and self._task is not None:
            rate = self._windows / max(1e-9, time.perf_counter() - self._start)
            length = trainer.length(trainer.position.epoch)
            best = trainer.position.best
            words = f"epoch {trainer.position.epoch} loss {loss:.4f} best {best:.4f} length {length} {rate:.0f} samples/s"
            self._bar.update(self._task, completed=trainer.position.step, description=words)

    def epoch(self, trainer: Trainer, losses: list[float], error: float | None) -> None:
        now = time.perf_counter()
        if self._board is not None and error is not None:
            self._board.add_scalar("validation", error, trainer.position.step)
        if self._bar is None:
            done, epochs = trainer.position.epoch, trainer.config.epochs
            mean = f"{sum(losses) / len(losses):.4f}" if losses else "–"
            shown = "" if error is None else f", validation {error:.4f}"
            rate = trainer.optimizer.param_groups[0]["lr"]
            length = trainer.length(done - 1)
            left = (now - self._start) / max(1, trainer.position.step) * (trainer.num_steps - trainer.position.step)
            self._say(
                f"epoch {done}/{epochs}: loss {mean}{shown}, length {length}, learning rate {rate:.2e}, "
                f"{now - self._epoch_start:.1f} s, {_duration(left)} left"
            )
        self._epoch_start = now

    def end(self, trainer: Trainer) -> None:
        self.close()
        best = trainer.position
        words = f"best validation error {best.best:.4f} after epoch {best.best_epoch}; " if trainer.best else ""
        self._say(f"{words}the surrogate is in {trainer.run / 'surrogate'}")

    def resumed(self, trainer: Trainer) -> None:
        self._say(f"going on from step {trainer.position.step} of {trainer.num_steps} in {trainer.run}")

    def warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def close(self) -> None:
        if self._board is not None:
            self._board.close()
            self._board = None
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def _estimate(self, trainer: Trainer) -> float:
        """Seconds to the end: steps of the shortest and the longest windows are tried, which leaves no trace."""
        now, last = trainer.position.epoch, trainer.config.epochs - 1
        if now > last:
            return 0.0
        lengths = [trainer.length(epoch) for epoch in range(now, last + 1)]
        short, long = (_seconds(trainer, epoch) for epoch in (now, last))
        steps = len(trainer.groups(now))
        return steps * float(np.interp(lengths, [lengths[0], max(lengths[-1], lengths[0] + 1)], [short, long]).sum())


def _seconds(trainer: Trainer, epoch: int) -> float:
    """Of a step, the second time."""
    batch, weight = next(trainer._batches(trainer.groups(epoch)[:1]))
    seconds = 0.0
    for _ in range(2):
        start = time.perf_counter()
        (trainer.objective.losses(batch).sum() * weight).backward()
        seconds = time.perf_counter() - start
    trainer.optimizer.zero_grad(set_to_none=True)
    return seconds


def _board(trainer: Trainer) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError("train.tensorboard: TensorBoard is not installed. Run: pip install 'calm-pde[tb]'") from error
    return SummaryWriter(str(trainer.run / "tensorboard"), purge_step=trainer.position.step)


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{seconds:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.1f} h"
