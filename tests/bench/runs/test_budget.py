"""From minutes to epochs: the arithmetic, and an allowance that is made once."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calm_pde.bench.runs.budget import allowance, allowance_of, stage_steps
from calm_pde.bench.runs.trials import Length, trials
from calm_pde.errors import CalmError
from calm_pde.models.calm import CalmConfig
from calm_pde.train.config import TrainConfig
from calm_pde.train.curriculum import self_fed
from calm_pde.train.length import probes
from calm_pde.train.length.steps import VALIDATIONS
from calm_pde.train.schedule import Schedule
from tests.bench.campaigns import SUITE, suite

SECONDS = st.floats(1e-3, 10)


@given(minutes=st.floats(0.01, 60), seconds=st.lists(SECONDS, min_size=1, max_size=3), validation=st.floats(0, 20))
def test_steps_fill_the_budget_or_are_the_fewest(minutes, seconds, validation):
    """Each stage gets the same time, and no step more fits; 300 steps in all are never missed."""
    steps = stage_steps(Length(minutes=minutes), seconds, validation)
    left = (60 * minutes - VALIDATIONS * validation) / len(seconds)
    fewest = math.ceil(300 / len(seconds))
    assert sum(steps) >= 300
    for count, each in zip(steps, seconds, strict=True):
        assert count == fewest or (count * each <= left * (1 + 1e-9) and (count + 1) * each > left * (1 - 1e-9))


def test_three_minutes_in_numbers():
    assert stage_steps(Length(minutes=3), [0.25], 0.0) == [720]
    assert stage_steps(Length(minutes=3), [0.25], 5.0) == [480]  # twelve validations take a minute
    assert stage_steps(Length(minutes=3), [0.1, 0.3], 0.0) == [900, 300]  # 90 s each
    assert stage_steps(Length(minutes=3), [2.0], 0.0) == [300]
    assert stage_steps(Length(minutes=3), [2.0, 0.1], 0.0) == [150, 900]
    assert stage_steps(Length(minutes=3, fewest_steps=0), [2.0], 0.0) == [90]  # equal times, however few steps
    assert stage_steps(Length(minutes=3, fewest_steps=0), [200.0], 0.0) == [1]
    assert stage_steps(Length(steps=4), [2.0, 0.1], 9.0) == [2, 2]
    assert stage_steps(Length(steps=2), [2.0], 9.0) == [2]
    assert stage_steps(Length(), [2.0], 9.0) == []


def told_times(monkeypatch: pytest.MonkeyPatch, model: str, seconds, **changes):
    """An allowance with step times that are told, not taken."""
    monkeypatch.setattr(probes, "seconds_of_step", seconds)
    monkeypatch.setattr(probes, "seconds_of_validation", lambda _: 0.0)
    chosen = [trial for trial in trials(suite(**changes), Path("out")) if trial.model == model]
    return allowance(chosen[0])


def test_a_growing_prefix_costs_what_its_schedule_costs(monkeypatch):
    """Steps of 10 ms for every frame that the model feeds itself: its mean is that of the schedule, to a few percent."""
    found = told_times(monkeypatch, "fno", lambda trainer, epoch: 0.01 * trainer.schedule.self_fed(epoch), minutes=1)
    epochs = 60
    wanted = 0.01 * sum(min(self_fed(epoch, epochs, 5), 4) for epoch in range(epochs)) / epochs
    assert found.seconds_per_step == pytest.approx(wanted, rel=0.05)
    assert found.steps == pytest.approx(60 / wanted, rel=0.06)
    assert found.recipe.train.epochs * 4 == found.steps  # 16 trajectories in batches of 4
    assert found.recipe.train.validate_every == found.recipe.train.epochs // VALIDATIONS


def test_a_slow_model_gets_its_300_steps(monkeypatch):
    found = told_times(monkeypatch, "fno", lambda trainer, epoch: 60.0, minutes=1)
    assert found.steps == 300
    assert found.recipe.train.epochs == 75


AROMA = {"aroma": {"train": {"batch_size": 2, "windows_per_trajectory": 1}, "model": {"autoencoder": {"num_tokens": 4}}}}


def test_stages_get_the_same_time(monkeypatch):
    def seconds(trainer, epoch):
        return {"autoencoder": 1 / 32, "dynamics": 1 / 128}[trainer.schedule.span(epoch).stage.name]

    found = told_times(monkeypatch, "aroma", seconds, minutes=1, models=AROMA)
    first, second = found.recipe.train.stages
    assert (first, second) == (960 / 8, 3840 / 8)  # 30 s each, in epochs of 8 steps
    assert found.recipe.train.epochs == 600
    assert found.steps == 4800
    assert found.steps * found.seconds_per_step == pytest.approx(60, rel=1e-6)


def test_a_stage_with_a_curriculum_costs_what_its_windows_cost(monkeypatch):
    """Three stages of 20 s each; the steps of the last take as long as the frames of its windows."""

    def seconds(trainer, epoch):
        stage = trainer.schedule.span(epoch).stage
        return 0.01 * trainer.schedule.self_fed(epoch) if stage.frames is None else 1 / 64

    calm = {"calm": {"train": {"batch_size": 2, "first_length": 2}, "model": {"staged": True}}}
    found = told_times(monkeypatch, "calm", seconds, minutes=1, models=calm)
    *parts, whole = found.recipe.train.stages
    assert parts == [20 * 64 / 8] * 2  # epochs of 8 steps
    schedule = Schedule(TrainConfig(epochs=60, first_length=2), CalmConfig.preset("burgers_1d"), 5, even=True)
    each = 0.01 * sum(schedule.self_fed(epoch) for epoch in range(60)) / 60
    assert whole * 8 * each == pytest.approx(20, rel=0.06)


def test_real_steps_are_timed_on_the_data(tmp_path):
    """The probes are positive, of start, middle and end; the allowance is written once, and read from then on."""
    (trial,) = [trial for trial in trials(suite(), tmp_path, steps=2) if trial.model == "fno"]
    path = tmp_path / "plans" / "fno.json"
    found = allowance_of(trial, path)
    assert [probe.share for probe in found.probes] == [0.0, pytest.approx(0.5, abs=0.02), 1.0]
    assert all(probe.seconds > 0 for probe in found.probes)
    assert (found.steps, found.recipe.train.epochs, found.recipe.train.batches_per_epoch) == (2, 2, 1)
    written = path.read_bytes()
    assert allowance_of(trial, path) == found
    assert path.read_bytes() == written
    other = trials(suite(train=SUITE["train"] | {"batch_size": 2}), tmp_path, steps=2)[0]
    with pytest.raises(CalmError, match=r"recipe\.train\.batch_size: 4 then, 2 now"):
        allowance_of(other, path)
    assert json.loads(written)["asked"]["name"] == "sample-fno-seed0"
