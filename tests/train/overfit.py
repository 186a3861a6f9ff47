"""Data sets of a few trajectories that a model must be able to learn by heart."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from calm_pde.data.dataset import Dataset
from calm_pde.data.windows import whole_windows
from calm_pde.data.writing import write
from calm_pde.metrics.relative_l2 import relative_l2
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Source, Trajectory
from calm_pde.solvers import Burgers, NavierStokes, Problem
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.config import Recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.record import read_record
from calm_pde.train.show import Show
from tests.solvers.trigonometric import interpolated


def solved(problem: Problem, count: int = 4, seed: int = 0) -> Source:
    """All of them for training."""
    draws = [np.random.default_rng([seed, index]) for index in range(count)]
    return Source(problem.description(), problem.solve(draws), count)


def burgers(points: int = 128, frames: int = 11) -> Source:
    return solved(Burgers(points=points, frames=frames, duration=0.5))


def navier_stokes(points: int = 32, frames: int = 8) -> Source:
    return solved(NavierStokes(points=points, resolution=2 * points, viscosity=1e-3, frames=frames, time_step=0.05))


def scattered(fewest: int = 600, most: int = 1000, frames: int = 8) -> Source:
    """Navier-Stokes, each trajectory interpolated spectrally at its own random cloud."""
    grid = navier_stokes(32, frames)
    description = dataclasses.replace(grid.description, points=None, grid_shape=None)

    def trajectories() -> Iterator[Trajectory]:
        draw = np.random.default_rng(0)
        for trajectory in grid.trajectories:
            points = draw.uniform(size=(int(draw.integers(fewest, most + 1)), 2))
            frames_on_grid = trajectory.fields[..., 0].reshape(-1, 32, 32).astype(np.float64)
            yield dataclasses.replace(
                trajectory, fields=interpolated(frames_on_grid, points)[..., None].astype(np.float32), points=points
            )

    return Source(description, trajectories(), grid.count)


def steady(count: int = 4) -> Source:
    """A field that depends on where the points lie: the distance from each cloud's own center, a wave of it."""
    grid = navier_stokes(8, 2).description
    description = Description(
        name="steady",
        fields=(Field(name="u"),),
        box=dataclasses.replace(grid.box, periodic=False),
        times=np.zeros(1),
        features=(Field(name="x"), Field(name="y")),
    )

    def trajectories() -> Iterator[Trajectory]:
        draw = np.random.default_rng(1)
        for _ in range(count):
            points = draw.uniform(size=(150, 2)) * draw.uniform(0.5, 1.0, size=2)
            away = np.linalg.norm(points - points.mean(axis=0), axis=1)
            yield Trajectory(
                np.sin(6 * away)[None, :, None].astype(np.float32), points=points, features=points.astype(np.float32)
            )

    return Source(description, trajectories(), count)


def model(dim: int, width: int = 16, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "calm",
        "dim": dim,
        "encoder": {
            "channels": [width, 2 * width, 4 * width],
            "num_queries": [128, 64, 16],
            "receptive_field": [0.04, 0.1, 0.3],
            "temperature": [1.0, 1.0, 0.3],
        },
        "decoder": {
            "channels": [2 * width, width],
            "num_queries": [64, 128],
            "receptive_field": [0.3, 0.1, 0.06],
            "temperature": [0.3, 1.0, 1.0],
        },
    } | changes


def model_of_a_line(width: int = 16) -> dict[str, Any]:
    """Query points that start on the grid, and neighborhoods of four to eight of them: gaps and wide ones blur a shock."""
    form = model(1, width)
    form["encoder"] |= {"receptive_field": [0.04, 0.06, 0.3], "temperature": [0.3, 0.3, 0.3], "mesh_prior": [True, True, True]}
    form["decoder"] |= {"receptive_field": [0.3, 0.06, 0.03], "temperature": [0.3, 0.3, 0.3], "mesh_prior": [True, True]}
    return form


def overfitted(
    source: Source, form: dict[str, Any], folder: Path, taken: dict[str, Any] | None = None, **train: Any
) -> tuple[float, float, float]:
    """The first loss, the mean loss of the last epoch, and the relative L2 error on the training trajectories themselves.

    Args:
        taken: what else a recipe says of its data.
    """
    write(source, folder / "a.h5").close()
    settings = {"batch_size": 4, "learning_rate": 3e-3, "validation": 0, "random_starts": False, "gradient_clip": 1.0}
    settings |= {"save_epochs": 100} | train
    data = {"file": folder / "a.h5"} | (taken or {})
    recipe = Recipe.model_validate({"name": "overfit", "data": data, "model": form, "train": settings})
    trainer = Trainer(recipe, folder / "run", Show(Console(quiet=True)))
    surrogate = Surrogate.load(trainer.fit())
    lines = read_record(folder / "run" / "metrics.jsonl")
    dataset = Dataset(folder / "a.h5")
    errors = []
    frames = 1 if surrogate.task == "autoencoder" else dataset.num_frames
    for batch in dataset.batches([[window] for window in whole_windows(len(dataset), frames)]):
        predicted = surrogate.predicted(batch)
        errors.append(float(relative_l2(predicted, batch.fields[:, -predicted.shape[1] :], batch.mask).mean()))
    return lines[0]["loss"], [line for line in lines if "mean_loss" in line][-1]["mean_loss"], float(np.mean(errors))
