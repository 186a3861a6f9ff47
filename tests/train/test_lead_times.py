"""Rollouts from every frame of a window: the loss is the mean over all pairs of a frame and a later one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rich.console import Console

from calm_pde.data.writing import write
from calm_pde.errors import ConfigError
from calm_pde.metrics.relative_l2 import relative_l2
from calm_pde.records.batch import Batch
from calm_pde.train.config import Recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show
from tests.data.sets import own_source, shared_source
from tests.models import steps
from tests.train.test_curriculum import MODEL
from tests.train.test_stages import MODEL as STAGED

FRAMES = 6
STEPS = {"kind": steps.KIND}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with steps.registered():
        yield


def trainer(folder: Path, source=None, model: dict = STEPS, **train: object) -> Trainer:
    path = folder / "a.h5"
    if not path.exists():
        write(source or shared_source(20, frames=FRAMES), path).close()
    settings = {"epochs": 10, "batch_size": 4, "precision": "float64", "lead_times": "all", "curriculum": False} | train
    content = {"name": "t", "data": {"file": path, "conditions": False}, "model": model, "train": settings}
    return Trainer(Recipe.model_validate(content), folder / "run", Show(Console(quiet=True)))


def first(run: Trainer, epoch: int = 0) -> Batch:
    return next(run.batches(run.groups(epoch)))[0]


def uneven():
    source = shared_source(20, frames=FRAMES)
    source.description.times[:] = [0.0, 0.5, 0.75, 2.0, 2.5, 3.0]
    return source


@pytest.mark.parametrize("reconstruction", [True, False])
@pytest.mark.parametrize("source", [shared_source, uneven], ids=["even", "uneven"])
def test_the_loss_of_a_decay_is_the_loop_over_pairs(source, reconstruction: bool, tmp_path: Path) -> None:
    """û(s, t) = u(s) exp(−0.3 (t − s)), and what is decoded of u(s) itself is half of it, t in frames of any spacing."""
    run = trainer(tmp_path, source() if source is uneven else source(20, frames=FRAMES), MODEL, reconstruction=reconstruction)
    run.model.rollout = lambda values, points, times, mask, kinds: torch.stack(
        [0.5 * values, *(values * math.exp(-0.3 * time) for time in times)], dim=1
    )
    batch = first(run)
    truth, times = run.surrogate.card.statistics.normalized(batch.fields.double()), run.data.frame_times
    assert source is not uneven or times.tolist() == [0.0, 1.0, 1.5, 4.0, 5.0, 6.0]
    for sample, loss in enumerate(run.objective.losses(batch).tolist()):
        found = []
        for s in range(FRAMES - 1):
            for t in range(s if reconstruction else s + 1, FRAMES):
                decay = 0.5 if t == s else math.exp(-0.3 * (times[t] - times[s]))
                for channel in range(2):
                    before, wanted = truth[sample, s, :, channel], truth[sample, t, :, channel]
                    found.append(float((decay * before - wanted).norm() / wanted.norm()))
        assert len(found) == 2 * (FRAMES * (FRAMES - 1) // 2 + (FRAMES - 1) * reconstruction)
        assert loss == pytest.approx(sum(found) / len(found), rel=1e-6)


@pytest.mark.parametrize("source", [shared_source, own_source], ids=["one mesh", "own meshes"])
def test_the_loss_and_its_gradient_are_those_of_rollouts_one_by_one(source, tmp_path: Path) -> None:
    run = trainer(tmp_path, source(20, frames=FRAMES))
    batch = first(run)
    truth = run.surrogate.card.statistics.normalized(batch.fields.double())
    errors = []
    for s in range(FRAMES - 1):
        said = run.model(truth[:, s], batch.points.double(), FRAMES - 1 - s, mask=batch.mask)
        errors.append(relative_l2(said, truth[:, s + 1 :], batch.mask))
    wanted, gradients = torch.cat(errors, dim=1).mean(dim=(1, 2)), []
    losses = run.objective.losses(batch)
    torch.testing.assert_close(losses, wanted)
    for some in (losses, wanted):
        run.model.zero_grad()
        some.sum().backward()
        gradients.append(run.model.first.weight.grad.clone())
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


def test_over_space_and_time_there_is_one_norm_of_all_pairs(tmp_path: Path) -> None:
    run = trainer(tmp_path, reduction="spacetime")
    batch = first(run)
    truth = run.surrogate.card.statistics.normalized(batch.fields.double())
    said = [run.model(truth[:, s], batch.points.double(), FRAMES - 1 - s) for s in range(FRAMES - 1)]
    wrong = sum((part - truth[:, s + 1 :]).square().sum(dim=(1, 2)) for s, part in enumerate(said))
    size = sum(truth[:, s + 1 :].square().sum(dim=(1, 2)) for s in range(FRAMES - 1))
    torch.testing.assert_close(run.objective.losses(batch), (wrong / size).sqrt().mean(dim=1))


@pytest.mark.parametrize("model", [STEPS, MODEL], ids=["steps", "calm"])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_windows_of_two_frames_have_one_start(model: dict, noise: float, tmp_path: Path) -> None:
    settings = {"curriculum": True, "first_length": 2, "epochs": 100, "input_noise": noise}
    runs = [trainer(tmp_path, None, model, lead_times=which, **settings) for which in ("window", "all")]
    batch = first(runs[0])
    assert batch.fields.shape[1] == 2
    torch.testing.assert_close(*(run.objective.losses(batch) for run in runs), rtol=1e-14, atol=0)


def test_every_start_has_noise_of_its_own(tmp_path: Path) -> None:
    run = trainer(tmp_path, input_noise=0.1)
    given, batch = [], first(run)
    real = run.model.rollout
    run.model.rollout = lambda values, *rest: given.append(values) or real(values, *rest)
    run.objective.losses(batch)
    truth = run.surrogate.card.statistics.normalized(batch.fields.double())
    noise = torch.stack(given, dim=1) - truth[:, :-1]
    assert len(given) == FRAMES - 1
    assert float(noise.std()) == pytest.approx(0.1, rel=0.1)
    assert float(torch.corrcoef(noise.transpose(0, 1).flatten(1)).fill_diagonal_(0).abs().max()) < 0.3


@pytest.mark.parametrize(
    ("model", "train", "reason"),
    [
        (STEPS, {"feeding": "truth"}, "train.feeding is 'truth'"),
        (STEPS, {"feeding": "prefix"}, "train.feeding is 'prefix'"),
        (MODEL | {"task": "autoencoder"}, {}, "'autoencoder'"),
        (STAGED, {}, "aroma learns in stages"),
    ],
    ids=["truth", "prefix", "autoencoder", "stages"],
)
def test_what_rolls_nothing_refuses_by_name(model: dict, train: dict, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"train\.lead_times: 'all' is .*{reason}"):
        trainer(tmp_path, None, model, **train)


def test_a_steady_problem_refuses_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.lead_times: 'all' is .*'steady'"):
        trainer(tmp_path, own_source(20, frames=1), MODEL | {"task": "steady", "node_types": [0, 4, 6]})


def test_time_is_foretold_by_all_the_frames_that_are_rolled(tmp_path: Path) -> None:
    run = trainer(tmp_path, curriculum=True, first_length=2, epochs=100)
    run.model.calls.clear()
    for epoch in (0, 60, 99):
        run.model.calls.clear()
        run.objective.losses(first(run, epoch), epoch)
        assert sum(run.model.calls) == run.schedule.self_fed(epoch)
    assert run.schedule.self_fed(99) == FRAMES * (FRAMES - 1) // 2


def test_the_memory_that_is_told_is_counted_and_not_that_of_one_rollout(tmp_path: Path, monkeypatch) -> None:
    known, counted = [], []
    for train in ({"lead_times": "window"}, {"lead_times": "all"}, {"lead_times": "window", "gradient_loss": 0.1}):
        run = trainer(tmp_path, None, MODEL, **train)
        show = Show(Console(quiet=True))
        monkeypatch.setattr(show, "_estimate", lambda trainer, count: counted.append(count) or (1.0, 5 << 20))
        monkeypatch.setattr(show, "_say", known.append)
        monkeypatch.setattr(run.model, "predicted_peak", lambda *_, **__: 7 << 20)
        show.begin(run)
    assert counted == [False, True, True]
    assert ["5 MiB" in words for words in known if "MiB a step" in words] == counted
