"""Going on from another run: it starts where that ended, learns what is new, and resumes exactly."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calm_pde as cp
from calm_pde import cli
from calm_pde.errors import ConfigError
from calm_pde.train.config import load_recipe
from calm_pde.train.rule.own import fine_tuned
from tests.train import runs


def moving_waves(out: Path, samples: int, size: float, seed: int) -> Path:
    """Waves that run along a circle of 32 points."""
    grid, frames = np.arange(32) / 32, np.arange(5)[:, None]
    phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, samples)
    fields = np.stack([size * np.sin(2 * np.pi * (grid - 0.06 * frames) + phase) for phase in phases])[..., None]
    cp.from_arrays(grid, fields, out=out, periodic=True, names=["height"])
    return out


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> dict[str, Path]:
    """Much of one size of waves, little of another."""
    folder = tmp_path_factory.mktemp("data")
    return {
        "old": moving_waves(folder / "old.h5", 100, 1.0, 0),
        "new": moving_waves(folder / "new.h5", 12, 1.3, 1),
    }


def told(file: Path, **train: Any) -> dict[str, Any]:
    usual = {"epochs": 4, "batch_size": 4, "first_length": 5, "learning_rate": 3e-3, "optimizer": "muon"}
    return {"data": {"file": file, "frame_stride": 1}, "train": usual | train}


@pytest.fixture(scope="module")
def parent(tmp_path_factory, data) -> cp.Run:
    with runs.single_thread():
        return cp.fit(runs.recipe(), tmp_path_factory.mktemp("parent") / "run", changes=told(data["old"], epochs=8))


def test_it_starts_at_the_old_error_and_stays_ahead(tmp_path, parent, data):
    """On the parent's own data its error is the parent's; on others the same steps get farther than from nothing."""
    old = parent.surrogate.card.metrics["validation"]
    same = runs.trainer(tmp_path / "same", parent={"run": parent.path}, **told(data["old"]))
    assert same.validate() == pytest.approx(old, rel=1e-6)
    new = cp.fit(runs.recipe(), tmp_path / "new", changes=told(data["new"]))
    tuned = cp.fit(runs.recipe(), tmp_path / "tuned", changes=told(data["new"]), parent=parent)
    assert len(new.losses) == len(tuned.losses)
    assert tuned.history[-1]["best"] < 0.9 * new.history[-1]["best"]
    found = tuned.surrogate.description.provenance["parent"]
    assert (found["run"], found["statistics"]) == (str(parent.path), "old")


def test_the_parent_is_kept_where_no_epoch_is_better(tmp_path, parent, data):
    """Steps so long that they lead away: what is kept is what it began with."""
    tuned = cp.fit(runs.recipe(), tmp_path / "tuned", changes=told(data["old"], epochs=1, learning_rate=0.5), parent=parent)
    assert tuned.history[-1]["validation"] > parent.surrogate.card.metrics["validation"]
    runs.assert_same_tensors(tuned.surrogate.model.state_dict(), parent.surrogate.model.state_dict())
    assert tuned.surrogate.card.metrics["epoch"] == 0


def test_statistics_are_the_parents_or_those_of_the_data(tmp_path, parent, data):
    file = cp.DataFile(data["new"])
    own = np.stack([file.trajectory(int(index)).fields for index in file.indices("train")]).astype(float).std(ddof=1)
    for kept, wanted in (("old", parent.surrogate.card.statistics.std[0]), ("new", own)):
        made = runs.trainer(tmp_path / kept, parent={"run": parent.path, "statistics": kept}, **told(data["new"]))
        found = made.surrogate.card.statistics
        assert found.std[0] == pytest.approx(wanted, rel=1e-6)
        assert found.highest[0] >= 1.25  # of both data


def test_it_resumes_exactly_without_its_parent(tmp_path, parent, data):
    """The folder that it came from may go: the run has a copy."""
    moved = tmp_path / "parent"
    shutil.copytree(parent, moved)
    options = told(data["new"]) | {"parent": {"run": moved}}
    runs.trainer(tmp_path / "whole", **options).fit()
    runs.interrupted(tmp_path / "halves", after=3, **options)
    shutil.rmtree(moved)
    runs.trainer(tmp_path / "halves", **options).fit()
    runs.assert_same_run(tmp_path / "halves", tmp_path / "whole")


def test_the_rate_is_a_tenth_unless_it_is_said():
    recipe = runs.recipe(train={"learning_rate": 2e-3})
    assert fine_tuned(recipe, "x", "old", rate_said=False).train.learning_rate == 2e-4
    assert fine_tuned(recipe, "x", "old", rate_said=True).train.learning_rate == 2e-3
    bare = load_recipe("mine.h5")
    assert fine_tuned(bare, "x", "old", rate_said=False).train.learning_rate == 6e-4


def test_on_the_command_line(tmp_path, monkeypatch, capsys, parent, data):
    """Data alone and a parent: sizes are the parent's, a second start goes on."""
    monkeypatch.chdir(tmp_path)
    line = ["train", str(data["new"]), "--from", str(parent.path), "--statistics", "new", "--train.epochs", "1"]
    cli.main(line)
    said = capsys.readouterr().out
    assert "with new statistics" in said
    assert "validation error at the start: " in said
    settled = load_recipe("runs/new/recipe.yaml")
    assert settled.model["encoder"]["num_queries"] == [16, 8, 4]
    assert settled.train.learning_rate == 6e-4
    cli.main(line)
    assert "going on from step" in capsys.readouterr().out


def test_another_architecture_is_refused(tmp_path, parent, data):
    recipe = runs.recipe(model={"processor": {"blocks": 3}})
    with pytest.raises(ConfigError, match=r"another architecture \(processor\.blocks: 1 there, 3 in the recipe\)"):
        cp.fit(recipe, tmp_path / "run", changes=told(data["new"]), parent=parent)
