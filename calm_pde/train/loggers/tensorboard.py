"""TensorBoard: event files in RUN/tensorboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from calm_pde.train.loggers.logger import Logger


class TensorBoard(Logger):
    name: ClassVar[str] = "TensorBoard"
    extra: ClassVar[str] = "tb"

    def __init__(self, run: Path, name: str, settings: dict[str, Any], step: int) -> None:
        written = self.module("torch.utils.tensorboard")
        self._writer = written.SummaryWriter(str(run / "tensorboard"), purge_step=step + 1)  # from which on they are hidden

    def add(self, values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self, finished: bool) -> None:
        self._writer.close()
