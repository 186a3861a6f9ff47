"""Every model with a steady form learns in its small size: thirty steps lower the loss, four samples are learned by heart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calm_pde.bench.runs.setups import setup
from calm_pde.models import MODELS
from calm_pde.records.trajectory import Source
from calm_pde.solvers import PROBLEMS
from calm_pde.train.record import read_record
from tests.train.overfit import overfitted, solved, steady
from tests.train.runs import single_thread

KINDS = [kind for kind, config in MODELS.items() if "elasticity" in config.presets]
SAMPLES: dict[str, dict[str, Any]] = {
    "elasticity": {"around": 24, "outward": 14},
    "steady_airfoil": {"stride_around": 5, "stride_outward": 2, "coordinates": "index"},
}
"""By problem, on the meshes of the small suite."""
TAKEN = {"steady_airfoil": {"normalize_features": "point", "conditions": False}, "elasticity": {"conditions": False}}
QUICK: dict[str, dict[str, Any]] = {"ono": {"learning_rate": 1e-2, "epochs": 60}, "transolver": {"epochs": 60}}
"""What thirty steps are changed to: what starts from small numbers begins slowly."""
_OVER_POINTS: dict[str, Any] = {"epochs": 3000, "learning_rate": 3e-3}
BY_HEART: dict[str, dict[str, Any]] = {
    "oformer": {"learning_rate": 1e-3},
    "upt": {"learning_rate": 2e-3},
    "lno": {"epochs": 6000, "rise": 0.1, "gradient_clip": None},
} | dict.fromkeys(("galerkin", "gnot", "ono", "transolver"), _OVER_POINTS)
"""What a setup's training is changed to, for only four samples."""


def learned(kind: str, problem: str, source: Source, folder: Path, **train: Any) -> tuple[float, float, float]:
    """As `overfitted`, of the small size with the training of its setup, but for what is said here."""
    small = setup(kind, problem, "small")
    with single_thread():
        return overfitted(source, small.model, folder, TAKEN.get(problem), **small.train | {"batch_size": 4} | train)


@pytest.mark.parametrize("kind", KINDS)
def test_thirty_steps_lower_the_loss(kind: str, tmp_path: Path) -> None:
    quick = {"epochs": 30, "schedule": "constant", "learning_rate": 3e-3, "gradient_clip": 1.0} | QUICK.get(kind, {})
    learned(kind, "elasticity", steady(), tmp_path, **quick)
    losses = np.array([line["loss"] for line in read_record(tmp_path / "run" / "metrics.jsonl") if "loss" in line])
    assert len(losses) == quick["epochs"]
    assert losses[-5:].mean() < 0.9 * losses[:2].mean()


@pytest.mark.slow
@pytest.mark.parametrize("problem", SAMPLES)
@pytest.mark.parametrize("kind", KINDS)
def test_four_samples_are_learned_to_two_percent(kind: str, problem: str, tmp_path: Path) -> None:
    begun = time.perf_counter()
    source = solved(PROBLEMS[problem](**SAMPLES[problem]))
    changes = {"epochs": 1000, "validate_every": 100, "gradient_clip": 1.0} | BY_HEART.get(kind, {})
    *_, error = learned(kind, problem, source, tmp_path, **changes)
    print(f"{kind} on {problem}: {error:.4f}, {(time.perf_counter() - begun) / 60:.1f} min")
    assert error < 0.02
