"""Runs of every dimension and kind of mesh, trained for seconds, that the tests of reports share."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.spatial import Delaunay

from calm_pde.data.writing import write
from calm_pde.geometry import Box, cell_centers, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Source, Trajectory, generated_split
from calm_pde.train.config import Recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show
from tests.train.runs import single_thread

FRAMES, COUNT = 6, 50
HOLE = 0.3  # radius of the hole in [-1, 1]²


def mesh_with_hole(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and triangles of a Delaunay mesh of the square without the disk, denser toward the disk."""
    draw = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False) + draw.uniform(0, 0.2)
    rim = HOLE * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    side = np.linspace(-1, 1, 9)
    edge = np.concatenate([[(x, y), (y, x)] for x in side for y in (-1.0, 1.0)])
    inner = draw.uniform(-1, 1, size=(4 * count, 2)) * draw.uniform(0.3, 1, size=(4 * count, 1))
    inner = inner[np.linalg.norm(inner, axis=1) > HOLE + 0.03][:count]
    points = np.unique(np.concatenate([rim, edge, inner]).round(9), axis=0)
    cells = Delaunay(points).simplices
    return points, cells[np.linalg.norm(points[cells].mean(axis=1), axis=1) > HOLE].astype(np.int32)


def rotating(points: np.ndarray, times: np.ndarray, phase: float) -> np.ndarray:
    """(time, point, 2): a field that turns about the origin and decays, and a positive one."""
    x, y = points[:, 0], points[:, -1]
    angle = np.arctan2(y, x) - times[:, None] + phase
    size = np.exp(-0.2 * times[:, None]) * np.hypot(x, y)
    return np.stack([size * np.cos(2 * angle), 1.5 + 0.5 * size * np.sin(angle)], axis=-1).astype(np.float32)


def holes(shared: bool, count: int = COUNT, names: tuple[str, str] = ("velocity", "pressure")) -> Source:
    """On one mesh, or on one each."""
    points, cells = mesh_with_hole(150, 0)
    description = Description(
        name="rotation",
        fields=(Field(name=names[0], unit="m/s"), Field(name=names[1], unit="Pa")),
        box=Box((-1.0, -1.0), (1.0, 1.0)),
        times=0.5 * np.arange(FRAMES),
        points=points if shared else None,
        cells=cells if shared else None,
    )

    def trajectories() -> Iterator[Trajectory]:
        for index in range(count):
            own = (points, cells) if shared else mesh_with_hole(120 + 4 * index, index)
            mesh: dict[str, Any] = {} if shared else {"points": own[0], "cells": own[1]}
            fields = rotating(own[0], description.times, 0.3 * index)
            yield Trajectory(fields, generated_split(index, count), seconds=0.5, **mesh)

    return Source(description, trajectories(), count)


def waves(shape: tuple[int, ...], count: int = COUNT) -> Source:
    """On a periodic grid of one to three axes."""
    points = tensor_grid(*(cell_centers(size) for size in shape))
    description = Description(
        name="waves",
        fields=(Field(name="u", unit="m/s"),),
        box=Box((0.0,) * len(shape), (1.0,) * len(shape), (True,) * len(shape)),
        times=0.1 * np.arange(FRAMES),
        points=points,
        grid_shape=shape,
        conserved=("u",),
    )

    def trajectories() -> Iterator[Trajectory]:
        for index in range(count):
            phase = 2 * np.pi * (points.sum(axis=1) - description.times[:, None]) + index
            yield Trajectory(np.sin(phase)[..., None].astype(np.float32), generated_split(index, count), seconds=0.5)

    return Source(description, trajectories(), count)


MODEL: dict[str, Any] = {
    "kind": "calm",
    "encoder": {
        "channels": [8, 16],
        "num_queries": [24, 8],
        "receptive_field": [0.1, 0.5],
        "temperature": [0.5, 0.5],
    },
    "decoder": {"channels": [8], "num_queries": [24], "receptive_field": [0.5, 0.3], "temperature": [0.5, 0.5]},
    "processor": {"heads": 2, "blocks": 1},
    "kernel_width": 8,
}

SETS: dict[str, Callable[[], Source]] = {
    "line": lambda: waves((48,)),
    "grid": lambda: waves((16, 12)),
    "mesh": lambda: holes(shared=True),
    "meshes": lambda: holes(shared=False),
    "volume": lambda: waves((8, 8, 8)),
}


@cache
def trained(kind: str) -> Path:
    """The folder of a run on a set, for all to read and none to change."""
    folder = Path(tempfile.mkdtemp(prefix="calm_report_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return train(SETS[kind](), folder)


def train(source: Source, folder: Path, **changes: Any) -> Path:
    write(source, folder / "data.h5")
    settings = {"epochs": 4, "batch_size": 10, "first_length": 3, "learning_rate": 3e-3} | changes
    recipe = Recipe.model_validate(
        {"name": "rotation", "data": {"file": folder / "data.h5"}, "model": MODEL, "train": settings}
    )
    with single_thread():
        Trainer(recipe, folder / "run", Show(Console(quiet=True))).fit()
    return folder / "run"
