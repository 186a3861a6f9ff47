"""Weights & Biases: a run of the project calm-pde, with its files in RUN/wandb."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from calm_pde.files.folders import replace_file
from calm_pde.train.loggers.logger import Logger

PROJECT = "calm-pde"
KEPT = "wandb.txt"
"""Of the file in a run that names it there, so that a resumed one goes on."""
_STEP = "step"  # W&B's own step never goes back, as a resumed run may


class WeightsAndBiases(Logger):
    name: ClassVar[str] = "Weights & Biases"
    extra: ClassVar[str] = "wandb"

    def __init__(self, run: Path, name: str, settings: dict[str, Any], step: int) -> None:
        wandb, kept = self.module("wandb"), run / KEPT
        known = kept.read_text().strip() if kept.exists() else None
        self._run = wandb.init(project=PROJECT, name=run.name, id=known, resume="allow", dir=str(run), config=settings)
        self._run.define_metric("*", step_metric=_STEP)
        replace_file(kept, str(self._run.id).encode())

    def add(self, values: dict[str, float], step: int) -> None:
        self._run.log(values | {_STEP: step})

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
