"""The benchmark of long rollouts follows a run ten horizons far, and says what it finds."""

from __future__ import annotations

import numpy as np

import calm_pde as cp
from benchmarks import long_rollouts
from calm_pde.train.config import Recipe
from tests.train.runs import single_thread
from tests.train.test_curriculum import MODEL


def test_a_run_is_followed_ten_horizons_far(tmp_path, monkeypatch):
    monkeypatch.setattr(long_rollouts, "SAMPLES", 10)
    monkeypatch.setattr(long_rollouts, "PICTURE", tmp_path / "long.png")
    generate = {"kind": "burgers", "samples": 10, "problem": {"points": 32, "frames": 7, "duration": 0.3}}
    recipe = {
        "name": "tiny",
        "data": {"file": str(tmp_path / "tiny.h5"), "generate": generate, "frame_stride": 2},
        "model": MODEL | {"dim": 1},
        "train": {"epochs": 1, "batch_size": 8, "first_length": 3},
    }
    with single_thread():
        run = cp.fit(Recipe.model_validate(recipe), tmp_path / "run")
        found = long_rollouts.beyond(run.path)
        long_rollouts.draw([found])
    assert (found.finite, found.tried, found.horizon) == (1, 1, 3)
    assert long_rollouts.curve(found).shape == (30,)
    whole = cp.DataFile(tmp_path / "tiny_10_times.h5")
    assert len(whole.description.times) == 61
    np.testing.assert_allclose(whole.description.times[:7], cp.DataFile(tmp_path / "tiny.h5").description.times)
    assert f"| {found.name} | 1 of 1 |" in "\n".join(long_rollouts.table([found]))
    assert (tmp_path / "long.png").stat().st_size > 1000
