"""Every model in its small size learns: thirty steps lower the loss, and four trajectories are learned by heart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.bench.runs.setups import setup
from calm_pde.data.dataset import Dataset
from calm_pde.data.windows import whole_windows
from calm_pde.metrics.relative_l2 import relative_l2
from calm_pde.models.aroma.model import Aroma
from calm_pde.records.trajectory import Source
from calm_pde.solvers import Cylinder, NavierStokes
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.record import read_record
from tests.train.overfit import navier_stokes, overfitted, scattered, solved
from tests.train.runs import single_thread

OVER_POINTS = ("galerkin", "gnot", "ono", "transolver")
PROBLEMS = {
    kind: "cylinder_2d" if kind in ("geo_fno", "mesh_graph_nets") else "navier_stokes_2d"
    for kind in (
        "calm",
        "fno",
        "geo_fno",
        "ffno",
        "oformer",
        "pit",
        "lno",
        "aroma",
        "upt",
        "mesh_graph_nets",
        "gaot",
        "unet",
        *OVER_POINTS,
    )
}


def learned(kind: str, source: Source, folder: Path, **train: Any) -> tuple[float, float, float]:
    """As `overfitted`, of the small size with the training of its setup, but for what is said here."""
    small = setup(kind, PROBLEMS[kind], "small")
    with single_thread():
        return overfitted(source, small.model, folder, **small.train | {"batch_size": 4} | train)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_thirty_steps_lower_the_loss(kind: str, tmp_path: Path) -> None:
    source = scattered(150, 200, 3) if PROBLEMS[kind] == "cylinder_2d" else navier_stokes(24, 3)
    stages, quick = 2 if kind == "aroma" else 1, {"schedule": "constant", "learning_rate": 3e-3, "windows_per_trajectory": 1}
    if kind in OVER_POINTS:  # fed by themselves, their loss is of other frames at the end than at the start
        quick |= {"feeding": "truth"}
    learned(kind, source, tmp_path, epochs=30 * stages, first_length=2, **quick)
    losses = [line["loss"] for line in read_record(tmp_path / "run" / "metrics.jsonl") if "loss" in line]
    for stage in np.split(np.array(losses), stages):
        assert len(stage) == 30
        assert stage[-5:].mean() < 0.9 * stage[:2].mean()


BY_HEART: dict[str, dict[str, Any]] = {kind: {"epochs": 1000} for kind in ("calm", "fno", "ffno", "oformer", "pit", "unet")} | {
    "geo_fno": {"epochs": 2500, "learning_rate": 3e-3},
    "lno": {
        "epochs": 2000,
        "feeding": "prefix",
        "growth": "linear",
        "growth_share": 0.6,
        "learning_rate": 2e-3,
        "gradient_clip": 1.0,
    },
    "mesh_graph_nets": {
        "epochs": 600,
        "windows_per_trajectory": 9,
        "random_starts": True,
        "learning_rate": 2e-3,
        "schedule": "cosine",
        "lowest_rate": 0.0,
        "input_noise": 0.003,
    },
    "aroma": {"epochs": 2000, "stages": [1700, 300], "batch_size": 20, "windows_per_trajectory": 5, "learning_rate": 3e-3},
    "galerkin": {"epochs": 700, "learning_rate": 3e-3, "gradient_clip": 1.0},
    "gnot": {"epochs": 450, "learning_rate": 3e-3, "gradient_clip": 1.0},
    "ono": {"epochs": 400, "learning_rate": 3e-3, "gradient_clip": 1.0},
    "transolver": {"epochs": 1000, "learning_rate": 3e-3, "gradient_clip": 1.0},
    "upt": {"epochs": 2500, "learning_rate": 2e-3},
    "gaot": {"epochs": 800, "learning_rate": 2e-3, "growth_share": 1.0, "random_starts": True},
}
"""What a setup's training is changed to, for only four trajectories."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", BY_HEART)
def test_four_trajectories_are_learned_to_five_percent(kind: str, tmp_path: Path) -> None:
    """In rollouts; AROMA by its autoencoder, and its rollout is told."""
    source = navier_stokes(32, 10)
    if PROBLEMS[kind] == "cylinder_2d":
        source = solved(Cylinder(points=450, frames=10))
    elif kind == "aroma":  # its mean tokens do not decode the weak first frames (docs/baselines.md)
        source = solved(NavierStokes(points=32, resolution=64, viscosity=1e-3, frames=10, time_step=0.05, first_time=11.0))
    begun = time.perf_counter()
    *_, error = learned(kind, source, tmp_path, **BY_HEART[kind])
    print(f"{kind} on {PROBLEMS[kind]}: rollout {error:.4f}, {(time.perf_counter() - begun) / 60:.1f} min")
    if kind == "aroma":
        error = reconstruction(tmp_path)
        print(f"{kind}: autoencoder {error:.4f}")
    assert error < 0.05


@torch.no_grad()
def reconstruction(folder: Path) -> float:
    """The error of all frames through AROMA's encoder and decoder."""
    surrogate, dataset = Surrogate.load(folder / "run" / "surrogate"), Dataset(folder / "a.h5")
    assert isinstance(surrogate.model, Aroma)
    statistics, errors = surrogate.card.statistics, []
    for batch in dataset.batches([[window] for window in whole_windows(len(dataset), dataset.num_frames)]):
        points = batch.points.float()
        for frame in batch.fields.unbind(dim=1):
            tokens = surrogate.model.encode(statistics.normalized(frame.float()), points, batch.mask)
            found = statistics.physical(surrogate.model.decode(tokens[:, None], points))
            errors.append(float(relative_l2(found, frame[:, None], batch.mask).mean()))
    return float(np.mean(errors))
