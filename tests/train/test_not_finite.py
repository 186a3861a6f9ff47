"""A number that is not finite never spreads: training stops or skips, names the batch, and keeps the state before it."""

from __future__ import annotations

import shutil

import h5py
import numpy as np
import pytest
import torch

from calm_pde.errors import FileError, TrainingError
from calm_pde.train.checkpoint import load_newest
from calm_pde.train.loop import Trainer
from calm_pde.train.record import read_record
from tests.train import runs
from tests.train.runs import one_thread  # noqa: F401

STEP = 6  # in the second epoch of four batches
TRAIN = {"epochs": 2}


def break_loss(trainer: Trainer, value: float, patch: pytest.MonkeyPatch) -> None:
    """The model's answer is not finite at one step."""
    real = trainer.objective.losses

    def losses(*given):
        found = real(*given)
        return found * value if trainer.position.step == STEP else found

    patch.setattr(trainer.objective, "losses", losses)


def break_gradient(trainer: Trainer, value: float, _: pytest.MonkeyPatch) -> None:
    """The loss is fine, and one entry of one gradient is not."""
    parameter = next(iter(trainer.model.parameters()))

    def hook(gradient):
        changed = gradient.clone()
        changed.flatten()[0] = value if trainer.position.step == STEP else changed.flatten()[0]
        return changed

    parameter.register_hook(hook)


def remembered(trainer: Trainer, patch: pytest.MonkeyPatch) -> list[dict[str, torch.Tensor]]:
    """The weights before each step."""
    found, real = [], trainer.step

    def step(*given):
        found.append(trainer._weights())
        return real(*given)

    patch.setattr(trainer, "step", step)
    return found


@pytest.mark.parametrize(("broken", "what", "value"), [(break_loss, "loss", np.inf), (break_gradient, "gradient", np.nan)])
def test_training_stops_and_keeps_the_state_before(tmp_path, monkeypatch, broken, what, value):
    trainer = runs.trainer(tmp_path / "run", train=TRAIN)
    broken(trainer, value, monkeypatch)
    weights = remembered(trainer, monkeypatch)
    windows = trainer.groups(1)[STEP - 4]
    with pytest.raises(TrainingError, match=f"the {what} is not finite at epoch 1, step {STEP}") as error:
        trainer.fit()
    trajectories = [int(trainer.data.indices[window.position]) for window in windows]
    assert f"trajectories {trajectories} from frames {[window.start for window in windows]} of {runs.SAMPLE}" in str(
        error.value
    )
    found = load_newest(tmp_path / "run" / "checkpoints")
    assert found is not None
    assert (found[0].position.step, found[0].position.skipped) == (STEP, 0)
    runs.assert_same_tensors(found[0].weights, weights[-1])
    assert all(line["step"] <= STEP for line in read_record(tmp_path / "run" / "metrics.jsonl"))
    runs.trainer(tmp_path / "run", train=TRAIN).fit()  # without the fault it goes on, and ends where it would have
    runs.assert_same_run(tmp_path / "run", runs.finished(epochs=2))


@pytest.mark.parametrize(("broken", "what"), [(break_loss, "loss"), (break_gradient, "gradient")])
def test_or_skips_and_counts(tmp_path, monkeypatch, broken, what):
    trainer = runs.trainer(tmp_path, train=TRAIN | {"on_nan": "skip", "average": 0.5})
    broken(trainer, np.nan, monkeypatch)
    weights = remembered(trainer, monkeypatch)
    said: list[str] = []
    monkeypatch.setattr(trainer.show, "warn", said.append)
    trainer.fit()
    said = [words for words in said if "not finite" in words]
    assert (trainer.position.step, trainer.position.skipped, len(said)) == (8, 1, 1)
    assert f"the {what} is not finite at epoch 1, step {STEP}" in said[0]
    runs.assert_same_tensors(weights[STEP + 1], weights[STEP])
    changed = [name for name, value in weights[STEP].items() if not torch.equal(value, trainer.model.state_dict()[name])]
    assert changed
    found = load_newest(tmp_path / "checkpoints")
    assert found is not None
    assert found[0].position.skipped == 1
    assert all(bool(torch.isfinite(value).all()) for value in found[0].average.values())
    epochs = [line["mean_loss"] for line in read_record(tmp_path / "metrics.jsonl") if "mean_loss" in line]
    assert all(np.isfinite(epochs))


@pytest.mark.parametrize(("on_nan", "value"), [("stop", np.inf), ("skip", np.nan)])
def test_weights_that_are_not_finite_are_never_saved(tmp_path, value, on_nan):
    trainer = runs.trainer(tmp_path, train=TRAIN | {"on_nan": on_nan})
    trainer._epoch()
    wanted = trainer._weights()
    with torch.no_grad():
        next(iter(trainer.model.parameters())).flatten()[0] = value
    with pytest.raises(TrainingError, match="not finite at step"):
        trainer.fit()
    found = load_newest(tmp_path / "checkpoints")
    assert found is not None
    assert (found[0].position.step, found[1]) == (4, [])
    runs.assert_same_tensors(found[0].weights, wanted)


@pytest.mark.parametrize(("split", "value"), [("train", np.inf), ("validation", np.nan)])
def test_data_that_are_not_finite(tmp_path, split, value):
    shutil.copy(runs.SAMPLE, tmp_path / "data.h5")
    with h5py.File(tmp_path / "data.h5", "a") as file:
        index = int(np.flatnonzero(np.asarray(file["split"]) == ["train", "validation"].index(split))[1])
        file["fields"][index, 8, 17, 0] = value  # pyright: ignore[reportIndexIssue]
    expected = FileError if split == "train" else TrainingError
    with pytest.raises(expected, match=rf"data\.h5.*trajector.*\b{index}\b.*finite|data\.h5.*\b{index}\b"):
        runs.trainer(tmp_path / "run", data={"file": str(tmp_path / "data.h5")}, train=TRAIN).fit()
