"""Who takes part in the comparison of speed, what one training step of each is, and the data that it is made on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from calm_pde.bench.runs.setups import title
from calm_pde.data.arrays import from_arrays
from calm_pde.data.storage import DataFile
from calm_pde.data.windows import whole_windows
from calm_pde.geometry import Box, tensor_grid
from calm_pde.models import MODELS
from calm_pde.models.practice import Timed
from calm_pde.train.config import Recipe, load_recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show

TRAJECTORIES = 8


@dataclass(frozen=True)
class Contender:
    """A model with what one of its training steps is."""

    kind: str
    timed: Timed

    @property
    def name(self) -> str:
        return title(self.kind) + self.timed.words


def contenders() -> tuple[Contender, ...]:
    """Of all models of the registry, those on the grid first."""
    found = [Contender(kind, timed) for kind, config in MODELS.items() for timed in config.practice.timed]
    return tuple(sorted(found, key=lambda contender: contender.timed.scattered))


@dataclass(frozen=True)
class Setting:
    """How large everything is."""

    points: int
    """Along each axis; their square are scattered."""
    frames: int
    horizons: tuple[int, ...]
    """Steps of the inferences."""
    small: bool


FULL = Setting(points=64, frames=20, horizons=(10, 20, 40, 80), small=False)
SMALL = Setting(points=24, frames=4, horizons=(2, 4), small=True)


def write_data(setting: Setting, folder: Path, scattered: bool) -> DataFile:
    """Smooth waves on the periodic grid, or on scattered points; 8 trajectories to train on."""
    draw = np.random.default_rng(0)
    axis = np.arange(setting.points) / setting.points
    points = draw.random((setting.points**2, 2)) if scattered else tensor_grid(axis, axis)
    count = TRAJECTORIES + 2
    phase = 2 * np.pi * (points.sum(axis=1) + 0.05 * np.arange(setting.frames)[:, None])
    fields = np.sin(phase + draw.uniform(0, 6, size=(count, 1, 1)))[..., None]
    split = ["train"] * TRAJECTORIES + ["validation", "test"]
    out = folder / f"{'points' if scattered else 'grid'}.h5"
    return from_arrays(points, fields, out=out, box=Box((0.0, 0.0), (1.0, 1.0), not scattered), split=split)


def trainer_of(contender: Contender, setting: Setting, file: Path, folder: Path) -> Trainer:
    """The one training loop with the contender's model; windows of a stage are as many as a trajectory has."""
    timed = contender.timed
    stages = MODELS[contender.kind].preset(timed.preset).abilities.stages
    windows = setting.frames + 1 - (stages[timed.stage].frames or setting.frames) if stages else 1
    size = TRAJECTORIES if timed.per_transition else TRAJECTORIES * windows
    train = {"epochs": 2, "batch_size": size, "windows_per_trajectory": windows, "learning_rate": 1e-6}
    recipe = {"name": "speed", "data": {"file": file}, "model": _model(contender, setting), "train": train | timed.train}
    return Trainer(Recipe.model_validate(recipe), folder / contender.name, Show(Console(quiet=True)))


def _model(contender: Contender, setting: Setting) -> dict[str, Any]:
    kind, preset = contender.kind, contender.timed.preset
    if not setting.small:
        return {"kind": kind, "preset": preset}
    if MODELS[kind].practice.by_recipe:
        return load_recipe(f"{preset}_small").model
    return {"kind": kind, "preset": f"{preset}_small"}


def training_step(trainer: Trainer, contender: Contender) -> Callable[[], object]:
    """One optimizer step, or one per transition, on batches that have been read before."""
    span = trainer.schedule.spans[contender.timed.stage]
    trainer.start_at(span.begin)
    batches = list(trainer.batches(trainer.groups(span.begin)))

    def step() -> None:
        for batch, weight in batches:
            trainer.step(batch, weight)

    return step


def inference(trainer: Trainer, steps: int) -> Callable[[], object]:
    """8 trajectories from their first frames."""
    windows = whole_windows(TRAJECTORIES, 1)
    batch = next(trainer.data.batches([windows])).to(trainer.processes.device)
    values, points = batch.fields[:, 0].float(), batch.points.float()

    @torch.no_grad()
    def answer() -> None:
        trainer.model.eval()
        trainer.model(values, points, steps)
        if values.is_cuda:
            torch.cuda.synchronize()

    return answer
