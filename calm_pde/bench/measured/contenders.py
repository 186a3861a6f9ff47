"""Who takes part in the comparison of speed, what one training step of each is, and the data that it is made on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from calm_pde.bench.runs.cards import title
from calm_pde.data.arrays import from_arrays
from calm_pde.data.storage import DataFile
from calm_pde.data.windows import whole_windows
from calm_pde.geometry import Box, tensor_grid
from calm_pde.train.config import Recipe, load_recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show

TRAJECTORIES = 8
_ROLLOUT: dict[str, Any] = {"feeding": "rollout", "curriculum": False}


@dataclass(frozen=True)
class Contender:
    """A model with what one of its training steps is: all transitions of 8 trajectories, as at the end of its schedule."""

    name: str
    kind: str
    what: str
    preset: str = "navier_stokes_2d"
    train: dict[str, Any] = field(default_factory=lambda: _ROLLOUT)
    stage: int = 0
    scattered: bool = False
    """On scattered points instead of the grid."""
    per_transition: bool = False
    """One optimizer step per transition; all of them count as one."""
    answers: bool = True
    """Whether it is timed in inference; of several with the same model one is enough."""


def _entry(kind: str, what: str, words: str = "", **more: Any) -> Contender:
    return Contender(title(kind) + words, kind, what, **more)


CONTENDERS = (
    _entry("calm", "latent rollout"),
    _entry("fno", "fed by itself"),
    _entry("ffno", "fed by itself"),
    _entry("pit", "fed by itself"),
    _entry("oformer", "latent rollout"),
    _entry("lno", "fed true frames", train={"feeding": "truth"}),
    _entry("aroma", "autoencoder, all frames, an eighth at a time", ", autoencoder", train={"accumulate": 8}),
    _entry("aroma", "dynamics, a step per transition", ", dynamics", stage=1, per_transition=True, train={}, answers=False),
    _entry("geo_fno", "fed by itself, scattered points", preset="airfoil_2d", scattered=True),
    _entry("ffno", "fed by itself, scattered points", " on points", preset="airfoil_2d", scattered=True),
)


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
    """The one training loop with the contender's model."""
    windows = {0: setting.frames, 1: setting.frames - 1}[contender.stage] if contender.kind == "aroma" else 1
    size = TRAJECTORIES if contender.per_transition else TRAJECTORIES * windows
    train = {"epochs": 2, "batch_size": size, "windows_per_trajectory": windows, "learning_rate": 1e-6}
    recipe = {"name": "speed", "data": {"file": file}, "model": _model(contender, setting), "train": train | contender.train}
    return Trainer(Recipe.model_validate(recipe), folder / contender.name, Show(Console(quiet=True)))


def _model(contender: Contender, setting: Setting) -> dict[str, Any]:
    if not setting.small:
        return {"kind": contender.kind, "preset": contender.preset}
    if contender.kind == "calm":
        return load_recipe("navier_stokes_2d_small").model
    return {"kind": contender.kind, "preset": f"{contender.preset}_small"}


def training_step(trainer: Trainer, contender: Contender) -> Callable[[], object]:
    """One optimizer step, or one per transition, on batches that have been read before."""
    span = trainer.plan.spans[contender.stage]
    trainer.position.epoch, trainer.position.step = span.begin, span.begin * trainer.epoch_steps
    trainer.optimizer = trainer._optimizer()
    trainer.model.train()
    batches = list(trainer._batches(trainer.groups(span.begin)))

    def step() -> None:
        for batch, weight in batches:
            trainer._step(batch, weight)

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
