"""Every model in its small size learns: thirty steps lower the loss, and four trajectories are learned by heart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calm_pde.bench.cards import card
from calm_pde.data.dataset import Dataset
from calm_pde.data.windows import whole_windows
from calm_pde.metrics import relative_l2
from calm_pde.models.aroma import Aroma
from calm_pde.solvers import Cylinder
from calm_pde.surrogate import Surrogate
from calm_pde.train.record import read_record
from calm_pde.trajectories import Source
from tests.train.overfit import navier_stokes, overfitted, scattered, solved
from tests.train.runs import single_thread

PROBLEMS = {
    kind: "cylinder_2d" if kind == "geo_fno" else "navier_stokes_2d"
    for kind in ("calm", "fno", "geo_fno", "ffno", "oformer", "pit", "lno", "aroma")
}


BY_HEART: dict[str, dict[str, Any]] = {
    "calm": {"epochs": 1000},
    "fno": {"epochs": 1000},
    "geo_fno": {"epochs": 1000},
    "ffno": {"epochs": 1000},
    "oformer": {"epochs": 1000},
    "pit": {"epochs": 1000},
    "lno": {"epochs": 1000},
    "aroma": {"epochs": 2000},
}


def learned(kind: str, source: Source, folder: Path, **train: Any) -> tuple[float, float, float]:
    """As `overfitted`, of the small size with the training of its card, but for what is said here."""
    small = card(kind, PROBLEMS[kind], "small")
    with single_thread():
        return overfitted(source, small.model, folder, **small.train | {"batch_size": 4} | train)


@pytest.mark.parametrize("kind", PROBLEMS)
def test_thirty_steps_lower_the_loss(kind: str, tmp_path: Path) -> None:
    source = scattered(150, 200, 3) if kind == "geo_fno" else navier_stokes(24, 3)
    stages, quick = 2 if kind == "aroma" else 1, {"schedule": "constant", "learning_rate": 3e-3, "windows_per_trajectory": 1}
    learned(kind, source, tmp_path, epochs=30 * stages, first_length=2, **quick)
    losses = [line["loss"] for line in read_record(tmp_path / "run" / "metrics.jsonl") if "loss" in line]
    for stage in np.split(np.array(losses), stages):
        assert len(stage) == 30
        assert stage[-5:].mean() < 0.9 * stage[:2].mean()


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROBLEMS)
def test_four_trajectories_are_learned_to_five_percent(kind: str, tmp_path: Path) -> None:
    """AROMA by its autoencoder; its rollout is told."""
    source = solved(Cylinder(points=450, frames=10)) if PROBLEMS[kind] == "cylinder_2d" else navier_stokes(32, 10)
    begun = time.perf_counter()
    *_, error = learned(kind, source, tmp_path, **BY_HEART[kind])
    print(f"{kind} on {PROBLEMS[kind]}: rollout {error:.4f}, {(time.perf_counter() - begun) / 60:.1f} min")
    if kind == "aroma":
        error = reconstruction(tmp_path)
        print(f"{kind} on {PROBLEMS[kind]}: autoencoder {error:.4f}")
    assert error < 0.05


def reconstruction(folder: Path) -> float:
    """Relative L2 of all frames after AROMA's encoder and decoder."""
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
