"""The loop learns a few trajectories by heart: rollouts on grids and clouds, steady problems, the autoencoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.train.overfit import burgers, model, model_of_a_line, navier_stokes, overfitted, scattered, steady


def test_loss_falls_tenfold(tmp_path: Path) -> None:
    first, last, error = overfitted(burgers(64, 6), model(1, width=8), tmp_path, epochs=200, first_length=3)
    assert last < first / 10
    assert error < 0.15


def test_steady_problem_overfits(tmp_path: Path) -> None:
    first, last, error = overfitted(steady(), model(2, width=8, task="steady"), tmp_path, epochs=200)
    assert last < first / 10
    assert error < 0.1


def test_autoencoder_overfits(tmp_path: Path) -> None:
    form = model(2, task="autoencoder")
    first, last, error = overfitted(navier_stokes(16, 3), form, tmp_path, epochs=250)
    assert last < first / 10
    assert error < 0.15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "form"),
    [(burgers, model_of_a_line()), (navier_stokes, model(2)), (scattered, model(2))],
    ids=["burgers", "grid", "clouds"],
)
def test_four_trajectories_are_learned_to_two_percent(make, form: dict[str, Any], tmp_path: Path) -> None:
    first, last, error = overfitted(make(), form, tmp_path, epochs=1200)
    print(f"{make.__name__}: first loss {first:.3f}, last {last:.4f}, relative L2 {error:.4f}")
    assert error < 0.02
