"""What a model is fed while it learns: its own answers, true frames, or first the one and then the other."""

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
from calm_pde.models import Model
from calm_pde.models.contract import Abilities
from calm_pde.records.batch import Batch
from calm_pde.train.config import Recipe
from calm_pde.train.curriculum import linear_length, self_fed
from calm_pde.train.loop import Trainer
from calm_pde.train.record import read_record
from calm_pde.train.show import Show
from tests.data.sets import own_source, shared_source
from tests.models import steps
from tests.train.test_curriculum import MODEL

FRAMES = 12


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with steps.registered():
        yield


def _trainer(folder: Path, source=None, model: dict | None = None, **train: object) -> Trainer:
    path = folder / "a.h5"
    if not path.exists():
        write(source or shared_source(20, frames=FRAMES), path).close()
    settings = {"epochs": 10, "batch_size": 4, "precision": "float64"} | train
    content = {
        "name": "t",
        "data": {"file": path, "conditions": False},
        "model": model or {"kind": steps.KIND},
        "train": settings,
    }
    return Trainer(Recipe.model_validate(content), folder / "run", Show(Console(quiet=True)))


def _batch(trainer: Trainer, epoch: int = 0) -> Batch:
    return next(trainer.batches(trainer.groups(epoch)))[0]


def _by_hand(trainer: Trainer, batch: Batch, fed: int) -> torch.Tensor:
    """CAPE's loop, frame by frame: the next input is the prediction while t < t_ar, else the truth."""
    truth = trainer.surrogate.card.statistics.normalized(batch.fields.double())
    points, state, found = batch.points.double(), truth[:, 0], []
    for t in range(1, truth.shape[1]):
        answer = trainer.model(state, points, 1, mask=batch.mask)[:, 0]
        found.append(answer)
        state = answer if t < fed else truth[:, t]
    return relative_l2(torch.stack(found, dim=1), truth[:, 1:], batch.mask).mean(dim=(1, 2))


def test_self_fed_frames_are_the_published_formula() -> None:
    assert [self_fed(epoch, 500, 20) for epoch in (0, 100, 200, 250, 300, 400, 499)] == [1, 1, 5, 10, 14, 19, 19]
    for epoch in range(500):
        risen = 0.5 * (1 + math.tanh((epoch / 500 - 0.5) / 0.2))
        assert self_fed(epoch, 500, 41) == max(1, min(41, int(41 * risen)))


@pytest.mark.parametrize(("first", "share"), [(10, 0.16), (8, 0.2)])
def test_linear_growth_is_the_published_formula(first: int, share: float) -> None:
    lengths = [linear_length(epoch, 1000, 41, first, share) for epoch in range(1000)]
    for iteration, length in enumerate(lengths):
        if iteration < share * 1000:
            progress = 2 * iteration / (share * 1000)
            assert length == first + 2 * int(max(0.0, progress - 1) * (41 - first) / 2)
        else:
            assert length == 41
    assert set(lengths[: int(share * 500)]) == {first}
    assert linear_length(0, 1000, 7, first, share) == 7


def test_linear_growth_in_a_training(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, model=MODEL, epochs=20, growth="linear", growth_share=0.5, first_length=4)
    lengths = [trainer.groups(epoch)[0][0].length for epoch in range(20)]
    assert lengths == [linear_length(epoch, 20, FRAMES, 4, 0.5) for epoch in range(20)]
    assert len(set(lengths)) > 3


@pytest.mark.parametrize("epoch", [0, 4, 6, 9])
@pytest.mark.parametrize("source", [shared_source, own_source], ids=["one mesh", "own meshes"])
def test_prefix_is_the_loop_written_out(epoch: int, source, tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, source(20, frames=FRAMES), feeding="prefix")
    batch = _batch(trainer, epoch)
    assert batch.fields.shape[1] == FRAMES
    fed = self_fed(epoch, 10, FRAMES)
    assert fed == {0: 1, 4: 3, 6: 8, 9: 11}[epoch]
    losses = trainer.objective.losses(batch, epoch)
    torch.testing.assert_close(losses, _by_hand(trainer, batch, fed), rtol=1e-12, atol=0)


def test_frames_after_the_prefix_are_one_call(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, feeding="prefix")
    trainer.model.calls.clear()
    trainer.objective.losses(_batch(trainer, 4), 4)
    assert trainer.model.calls == [1, 1, 1, FRAMES - 1 - 3]


def test_self_fed_frames_pass_their_gradient_on(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, feeding="prefix")
    batch, wanted = _batch(trainer, 6), []
    for losses in (trainer.objective.losses(batch, 6), _by_hand(trainer, batch, 8)):
        losses.sum().backward()
        wanted.append(trainer.model.first.weight.grad.clone())
        trainer.model.zero_grad()
    torch.testing.assert_close(*wanted, rtol=1e-10, atol=1e-14)


def test_truth_is_pure_teacher_forcing_and_the_last_prefix_a_rollout(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, feeding="truth")
    batch = _batch(trainer)
    torch.testing.assert_close(trainer.objective.losses(batch), _by_hand(trainer, batch, 1), rtol=1e-12, atol=0)
    rolled = _trainer(tmp_path, curriculum=False)
    torch.testing.assert_close(rolled.objective.losses(batch), _by_hand(rolled, batch, FRAMES), rtol=1e-12, atol=0)


@pytest.mark.parametrize("together", [1, 4, 100])
def test_chunks_of_frames_change_nothing(together: int, tmp_path: Path) -> None:
    found = []
    for chunk in (None, together):
        trainer = _trainer(tmp_path, feeding="truth", frames_at_once=chunk)
        trainer.model.calls.clear()
        losses = trainer.objective.losses(_batch(trainer))
        most = max(trainer.model.calls)
        losses.sum().backward()
        found.append((losses, trainer.model.first.weight.grad))
        assert most == (FRAMES - 1 if chunk is None else min(chunk, FRAMES - 1))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("feeding", ["prefix", "truth"])
def test_a_model_without_single_steps_says_what_to_use(feeding: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"train\.feeding: '{feeding}' is for .* calm does not\. Use 'rollout'"):
        _trainer(tmp_path, model=MODEL | {"task": "autoencoder"}, feeding=feeding)


class _Borrowed(Model):
    """Steps inside, and no class of theirs: what it can do is what its configuration says."""

    def __init__(self, config: steps.StepsConfig, seed: int) -> None:
        super().__init__()
        self.config, self.inner = config, steps.Steps(config, seed)

    def forward(self, values, points, num_steps=None, queries=None, mask=None, node_type=None):
        return self.inner(values, points, num_steps, queries, mask, node_type)

    def rollout(self, values, points, times, mask=None, node_type=None):
        return self.inner.rollout(values, points, times, mask, node_type)

    def following(self, states, points, mask=None, node_type=None):
        return self.inner.following(states, points, mask, node_type)


@pytest.mark.parametrize("together", [None, 2])
def test_what_a_model_declares_is_asked_and_not_its_class(together: int | None, tmp_path: Path, monkeypatch) -> None:
    found = []
    for make in (steps.Steps, _Borrowed):
        monkeypatch.setattr(steps.StepsConfig, "build", lambda config, mesh=None, seed=0, make=make: make(config, seed))
        trainer = _trainer(tmp_path, feeding="prefix", frames_at_once=together)
        found.append(trainer.objective.losses(_batch(trainer, 4), 4))
    assert torch.equal(*found)
    monkeypatch.setattr(steps.StepsConfig, "abilities", Abilities())
    with pytest.raises(ConfigError, match="for models that go from frame to frame"):
        _trainer(tmp_path, feeding="prefix")


@pytest.mark.parametrize("feeding", ["prefix", "truth"])
def test_uneven_frames_have_no_single_step(feeding: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="evenly spaced"):
        _trainer(tmp_path, _uneven(), feeding=feeding)


def _uneven():
    source = shared_source(20, frames=4)
    source.description.times[-1] += source.description.times[-1] - source.description.times[-2]
    return source


@pytest.mark.parametrize("reconstruction", [True, False])
def test_a_state_that_is_given_back_counts_for_nothing(reconstruction: bool, tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, reconstruction=reconstruction)
    batch = _batch(trainer)
    torch.testing.assert_close(trainer.objective.losses(batch), _by_hand(trainer, batch, FRAMES), rtol=1e-12, atol=0)


@pytest.mark.parametrize("feeding", ["rollout", "truth"])
def test_input_noise(feeding: str, tmp_path: Path) -> None:
    """A function of seed, epoch and window: not of the batch, nor of padded points; of the given size, on inputs alone."""
    trainer = _trainer(tmp_path, own_source(20, frames=FRAMES), feeding=feeding, input_noise=0.1)
    windows = trainer.groups(0)[0]
    together = trainer.objective.losses(next(trainer.data.batches([windows])))
    alone = [trainer.objective.losses(next(trainer.data.batches([[window]]))) for window in windows]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-12, atol=0)
    batch = next(trainer.data.batches([windows]))
    assert not torch.equal(together, trainer.objective.losses(batch, 1))
    values = torch.zeros(len(windows), 5, 400, 3, dtype=torch.float64)
    noise = trainer.objective._noisy(values, batch, 0)
    assert float(noise.std()) == pytest.approx(0.1, rel=0.02)
    assert abs(float(noise.mean())) < 0.002
    quiet = _trainer(tmp_path, feeding=feeding).objective.losses(batch)
    assert 0 < float((together - quiet).detach().abs().max()) < 0.5


def test_a_run_with_a_prefix_tells_it(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, feeding="prefix", epochs=6, validation=0, save_epochs=6)
    trainer.fit()
    lines = [line for line in read_record(tmp_path / "run" / "metrics.jsonl") if "loss" in line]
    assert [line["self_fed"] for line in lines[::4]] == [min(self_fed(epoch, 6, FRAMES), 11) for epoch in range(6)]
    assert {line["length"] for line in lines} == {FRAMES}
