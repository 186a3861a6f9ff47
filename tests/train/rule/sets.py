"""Data of every kind that the rule tells apart: made by hand in no time, or by our solvers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import calm_pde as cp
from calm_pde.bench.runs.setups import tiny

SAMPLES = 10


def waves(points: np.ndarray, frames: int = 6, channels: int = 1, samples: int = SAMPLES) -> np.ndarray:
    """(sample, time, point, channel) that differ in phase."""
    phase = np.arange(samples)[:, None, None, None] + np.arange(channels)
    return np.sin(6 * points[:, :1] + 0.3 * np.arange(frames)[:, None, None] + phase)


def arrays(out: Path, points: Any, fields: Any, **more: Any) -> cp.DataFile:
    return cp.from_arrays(points, fields, out=out, **more)


def operator_arrays(out: Path) -> cp.DataFile:
    """Sample × time × 16 points, as neural operators are fed."""
    grid = np.arange(16) / 16
    return arrays(out, grid, waves(grid[:, None]))


def own_meshes(out: Path) -> cp.DataFile:
    """A cloud of its own for each sample, with node types."""
    draw = np.random.default_rng(0)
    clouds = [draw.random((int(count), 2)) for count in draw.integers(90, 140, SAMPLES)]
    kinds = [(cloud[:, 0] < 0.1).astype(np.int32) for cloud in clouds]
    return arrays(out, clouds, [waves(cloud, channels=2)[0] for cloud in clouds], node_type=kinds)


def steady(out: Path) -> cp.DataFile:
    """Features on one mesh, of a problem without time."""
    points = np.random.default_rng(0).random((120, 2))
    features = waves(points, 1)[:, 0] + 1
    return arrays(out, points, features[:, None] ** 2, features=features)


def five_points(out: Path) -> cp.DataFile:
    points = np.random.default_rng(0).random((5, 2))
    return arrays(out, points, waves(points, 3))


def solved(problem: str, **changes: Any) -> Callable[[Path], cp.DataFile]:
    """The smallest data of a problem of the paper."""

    def made(out: Path) -> cp.DataFile:
        asked = tiny(problem)
        return cp.generate(asked.kind, out, samples=asked.samples, processes=1, **asked.problem | changes)

    return made


def heat(out: Path) -> cp.DataFile:
    """A mesh of its own for each sample, parameters and a signal, and level first frames."""
    return cp.generate("heat", out, samples=SAMPLES, processes=1, points=150, frames=4, duration=100.0, time_step=50.0)


QUICK: dict[str, Callable[[Path], cp.DataFile]] = {
    "operator_arrays": operator_arrays,
    "own_meshes": own_meshes,
    "steady": steady,
    "five_points": five_points,
    "heat": heat,
    "burgers_1d": solved("burgers_1d", duration=0.05),
    "navier_stokes_2d": solved("navier_stokes_2d"),
    "elasticity": solved("elasticity"),
}
SLOW: dict[str, Callable[[Path], cp.DataFile]] = {
    "navier_stokes_2d_1e-5": solved("navier_stokes_2d", viscosity=1e-5),
    "compressible_3d": solved("compressible_3d", points=8),
    "airfoil_2d": solved("airfoil_2d"),
    "cylinder_2d": solved("cylinder_2d"),
    "steady_airfoil": solved("steady_airfoil"),
}
