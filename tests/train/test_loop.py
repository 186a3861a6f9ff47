"""The loop's settings each do what they say."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.loop import Trainer
from calm_pde.train.record import read_record
from calm_pde.train.show import Show
from tests.train.runs import recipe, trainer


def _losses(run: Path) -> list[float]:
    return [line["loss"] for line in read_record(run / "metrics.jsonl") if "loss" in line]


def _fitted(run: Path, **train: object) -> Path:
    trainer(run, train={"epochs": 2} | train).fit()
    return run


def test_accumulation_changes_nothing_but_rounding(tmp_path: Path) -> None:
    whole = _losses(_fitted(tmp_path / "a", precision="float64"))
    split = _losses(_fitted(tmp_path / "b", precision="float64", accumulate=3))
    assert whole == pytest.approx(split, rel=1e-10)


def test_parts_of_a_batch_are_the_batch(tmp_path: Path) -> None:
    run = trainer(tmp_path / "a")
    batch, _ = next(run.batches(run.groups(0)))
    for count in (1, 2, 3, 10):
        found = list(batch.parts(count))
        assert len(found) <= count
        assert torch.equal(torch.cat([part.fields for part in found]), batch.fields)
        assert all(part.points is batch.points for part in found)


def test_steps_of_any_epoch_can_be_taken_at_once(tmp_path: Path) -> None:
    """As what measures them does: at the place, the rate and the windows that a training has there."""
    run = trainer(tmp_path / "a", train={"epochs": 6})
    run.start_at(4)
    assert (run.position.epoch, run.position.batch, run.position.step) == (4, 0, 4 * run.epoch_steps)
    before, seconds = {name: value.clone() for name, value in run.model.state_dict().items()}, run.seconds
    batch, weight = next(run.batches(run.groups(4)))
    assert batch.fields.shape[1] == run.schedule.length(4)
    assert 0 < run.step(batch, weight) < 10
    assert run.optimizer.rate == run.schedule.learning_rate(4, 4 * run.epoch_steps, run.epoch_steps)
    assert any(not torch.equal(value, before[name]) for name, value in run.model.state_dict().items())
    assert run.seconds > seconds > 0


def test_the_best_epoch_on_validation_is_kept(tmp_path: Path) -> None:
    run = trainer(tmp_path / "a", train={"epochs": 6, "learning_rate": 0.02})
    surrogate = Surrogate.load(run.fit())
    errors = [line["validation"] for line in read_record(tmp_path / "a" / "metrics.jsonl") if "validation" in line]
    assert len(errors) == 6
    assert run.position.best == min(errors)
    assert run.position.best_epoch == 1 + errors.index(min(errors))
    told = surrogate.card.metrics
    assert (told["validation"], told["epoch"]) == (min(errors), run.position.best_epoch)
    assert 0 < told["seconds"] == run.position.seconds
    run.model.load_state_dict(surrogate.model.state_dict())
    assert run.validate() == pytest.approx(min(errors), rel=1e-5)


def test_steps_compute_with_the_threads_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = torch.get_num_threads(), []
    run = trainer(tmp_path / "a", train={"epochs": 1, "threads": before + 1})
    step = run.step
    monkeypatch.setattr(run, "step", lambda *batch: seen.append(torch.get_num_threads()) or step(*batch))
    made = Surrogate.load(run.fit()).card.provenance
    assert set(seen) == {before + 1}
    assert torch.get_num_threads() == before
    assert made["machine"].endswith(f"{before + 1} threads")


def test_without_validation_the_last_epoch_is_kept(tmp_path: Path) -> None:
    run = trainer(tmp_path / "a", train={"epochs": 2, "validation": 0})
    weights = Surrogate.load(run.fit()).model.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in run.model.state_dict().items())


def test_the_average_of_weights_is_kept_where_asked(tmp_path: Path) -> None:
    run = trainer(tmp_path / "a", train={"epochs": 1, "validation": 0, "average": 0.5})
    wanted = {name: value.clone() for name, value in run.model.state_dict().items()}
    step = run.step

    def followed(*arguments):
        loss = step(*arguments)
        for name, value in run.model.state_dict().items():
            wanted[name] += 0.5 * (value - wanted[name])
        return loss

    run.step = followed
    found = Surrogate.load(run.fit()).model.state_dict()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value)


def test_clipping_bounds_the_gradient(tmp_path: Path) -> None:
    run = trainer(tmp_path / "a", train={"gradient_clip": 1e-3})
    batch, weight = next(run.batches(run.groups(0)))
    run.step(batch, weight)
    norm = torch.stack([parameter.grad.norm() for parameter in run.model.parameters()]).norm()
    assert float(norm) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_other_precisions_train(precision: str, tmp_path: Path) -> None:
    single, other = _losses(_fitted(tmp_path / "a")), _losses(_fitted(tmp_path / "b", precision=precision))
    assert other[0] == pytest.approx(single[0], rel=1e-5 if precision == "float64" else 5e-2)
    assert Surrogate.load(tmp_path / "b").model.state_dict()["encoder.0.bias"].dtype == torch.float32


def test_learning_rate_of_every_step_is_written_down(tmp_path: Path) -> None:
    lines = [line for line in read_record(_fitted(tmp_path / "a") / "metrics.jsonl") if "loss" in line]
    assert [line["step"] for line in lines] == list(range(1, 9))
    assert lines[0]["learning_rate"] == 1e-3
    assert lines[4]["learning_rate"] == pytest.approx(5e-4)


def test_an_epoch_may_end_early_and_shows_others_then(tmp_path: Path) -> None:
    """Three of four batches per epoch: the learning rate and the record count by them, and what is left out changes."""
    run = trainer(tmp_path / "a", train={"epochs": 3, "batches_per_epoch": 3})
    assert (run.epoch_steps, run.num_steps) == (3, 9)
    shown = [{window.position for group in run.groups(epoch) for window in group} for epoch in range(3)]
    assert [len(positions) for positions in shown] == [12, 12, 12]
    assert shown[0] != shown[1]
    run.fit()
    assert [line["step"] for line in read_record(tmp_path / "a" / "metrics.jsonl") if "loss" in line] == list(range(1, 10))
    assert trainer(tmp_path / "b", train={"batches_per_epoch": 99}).epoch_steps == 4


def test_epochs_of_a_handful_of_steps_are_told_of(tmp_path: Path) -> None:
    """With numbers and what would fit; a training whose epochs are short on purpose, or long, hears nothing."""
    for name, told, settings in (
        ("few", True, {"batch_size": 16}),
        ("meant", False, {"batch_size": 16, "batches_per_epoch": 1}),
        ("many", False, {"batch_size": 2}),
    ):
        console = Console(record=True, file=io.StringIO(), width=400)
        Trainer(recipe(train={"epochs": 1} | settings), tmp_path / name, Show(console)).fit()
        said = console.export_text()
        words = "warning: 16 windows in batches of 16 are 1 step an epoch, 1 in all 1 epochs. train.batch_size 1 would make 16"
        assert (words in said) == told
