"""A model that learns part by part: who learns when, what is kept, and runs that are stopped anywhere."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from rich.console import Console

from calm_pde.data.writing import write
from calm_pde.errors import ConfigError
from calm_pde.models.contract import Stage
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.checkpoint import load_newest
from calm_pde.train.config import Recipe, TrainConfig
from calm_pde.train.loop import Trainer
from calm_pde.train.record import read_record
from calm_pde.train.schedule import Schedule
from calm_pde.train.show import Show
from calm_pde.train.stages import spans
from tests.data.sets import shared_source
from tests.train import runs, test_curriculum
from tests.train.runs import one_thread  # noqa: F401
from tests.train.test_processes import TORCHRUN, numbers

STAGES = (Stage("a", 1), Stage("b", 2))
MODEL = {
    "kind": "aroma",
    "autoencoder": {
        "num_tokens": 4,
        "latent_channels": 3,
        "width": 8,
        "heads": 2,
        "depth": 2,
        "frequencies": 3,
        "band_width": 3,
        "field_width": 8,
    },
    "dynamics": {"width": 8, "heads": 2, "blocks": 1, "standardize": True},
}
CALM = test_curriculum.MODEL | {"staged": True, "consistency": 0.1}
TRAIN: dict[str, Any] = {
    "epochs": 4,
    "batch_size": 5,
    "learning_rate": 1e-2,
    "weight_decay": 0.1,
    "gradient_clip": 0.5,
    "average": 0.5,
}
STEPS = 4  # of an epoch: 16 trajectories in batches of 5, the last of one


@cache
def few_points() -> Path:
    """As many trajectories as the sample has, on 36 points, so that a model with larger steps is quick."""
    folder = Path(tempfile.mkdtemp(prefix="calm_stages_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return write(shared_source(20), folder / "a.h5").path


def recipe(model: dict[str, Any] = MODEL, **train: Any) -> Recipe:
    data = (
        {"file": few_points(), "conditions": False}
        if model["kind"] == "calm"
        else {"file": str(runs.SAMPLE), "frame_stride": 4}
    )
    return Recipe.model_validate({"name": "tiny", "data": data, "model": model, "train": TRAIN | train})


def trainer(run: Path, model: dict[str, Any] = MODEL, **train: Any) -> Trainer:
    return Trainer(recipe(model, **train), run, Show(Console(quiet=True)))


def weights(trainer: Trainer, part: str) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer.model.part(part).state_dict().items() if name not in ("mean", "std")}


def test_epochs_are_split_by_shares():
    def borders(epochs: int, *shares: float) -> list[tuple[int, int]]:
        return [(span.begin, span.end) for span in spans(STAGES, epochs, [float(share) for share in shares])]

    assert borders(10) == [(0, 5), (5, 10)]
    assert borders(10, 3, 1) == [(0, 8), (8, 10)]
    assert borders(7, 0.5, 0.5)[0][1] == borders(7, 0.5, 0.5)[1][0]
    assert spans((), 10, ())[0].stage is None
    with pytest.raises(ConfigError, match=r"train\.stages: expected 2 shares, for a, b, got 1"):
        borders(10, 1)
    with pytest.raises(ConfigError, match=r"train\.epochs: 3 leave none for the stage 'b'"):
        borders(3, 9, 1)
    with pytest.raises(ConfigError, match=r"train\.stages: expected none, since this model is trained as a whole"):
        spans((), 10, (1.0, 1.0))


def test_each_stage_trains_its_part_alone(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", average=None, save_epochs=4)
    start = {part: weights(run, part) for part in ("autoencoder", "dynamics")}
    real, seen = run.step, []

    def step(*arguments: Any) -> float:
        before = {part: weights(run, part) for part in start}
        loss = real(*arguments)
        stage = run.schedule.span(run.position.epoch).stage
        assert stage is not None
        for part, old in before.items():
            now, learns = weights(run, part), part == stage.name
            assert all(torch.equal(now[name], old[name]) for name in now) is not learns
            for weight in run.model.part(part).parameters():
                assert (weight.grad is not None) == weight.requires_grad == learns
        held = {id(weight) for part in run.optimizer.parts for group in part.param_groups for weight in group["params"]}
        assert held == {id(weight) for weight in run.model.part(stage.name).parameters()}
        seen.append(stage.name)
        return loss

    run.step = step
    run.fit()
    assert seen == ["autoencoder"] * 2 * STEPS + ["dynamics"] * 2 * STEPS
    for part, old in start.items():
        assert all(not torch.equal(weights(run, part)[name], old[name]) for name in old if name != "network.place"), part
    lines = [line for line in read_record(tmp_path / "run" / "metrics.jsonl") if "loss" in line]
    assert [line["stage"] for line in lines] == seen
    assert [line["length"] for line in lines] == [1] * 2 * STEPS + [2] * 2 * STEPS
    rates = [line["learning_rate"] for line in lines]
    assert rates[: 2 * STEPS] == rates[2 * STEPS :]  # each stage goes through the schedule
    assert rates[0] == 1e-2


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_calm_learns_part_by_part_and_then_as_a_whole(optimizer: str, tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", CALM, average=None, epochs=3, first_length=2, optimizer=optimizer)
    real, seen = run.step, []

    def step(*arguments: Any) -> float:
        before = {name: weight.detach().clone() for name, weight in run.model.named_parameters()}
        loss = real(*arguments)
        stage = run.schedule.span(run.position.epoch).stage
        assert stage is not None
        part = {id(weight) for weight in run.model.part(stage.name).parameters()}
        for name, weight in run.model.named_parameters():
            assert (weight.grad is not None) == weight.requires_grad == (id(weight) in part), name
            if not name.endswith("norm_key.bias"):  # its gradient is zero but for rounding
                assert torch.equal(weight, before[name]) is not (id(weight) in part), name
        assert {name.split(".")[0] for name, weight in run.model.named_parameters() if id(weight) in part} == {
            "autoencoder": {"encoder", "decoder"},
            "dynamics": {"processor"},
            "whole": {"encoder", "decoder", "processor"},
        }[stage.name]
        held = {id(weight) for each in run.optimizer.parts for group in each.param_groups for weight in group["params"]}
        assert held == part
        seen.append(stage.name)
        return loss

    run.step = step
    run.fit()
    assert seen == ["autoencoder"] * STEPS + ["dynamics"] * STEPS + ["whole"] * STEPS
    lines = [line for line in read_record(tmp_path / "run" / "metrics.jsonl") if "loss" in line]
    assert [line["length"] for line in lines[::STEPS]] == [1, 4, 2]
    assert run.position.best_epoch == 3


@pytest.mark.parametrize(
    "settings", [{"growth": "tanh"}, {"growth": "linear", "growth_share": 0.8}, {"feeding": "prefix"}], ids=str
)
def test_the_whole_learns_as_a_training_without_stages(settings: dict[str, Any], tmp_path: Path) -> None:
    """Curriculum, windows and learning rate of as many epochs as its own, and the loss to the bit."""
    settings = settings | {"first_length": 3}
    staged, plain = (
        trainer(tmp_path / name, model).model.config for name, model in (("a", CALM), ("b", CALM | {"staged": False}))
    )
    found = Schedule(TrainConfig(epochs=60, stages=(2, 1, 3), **settings), staged, 20, even=True)
    wanted = Schedule(TrainConfig(epochs=30, **settings), plain, 20, even=True)
    for epoch in range(30):
        for ask in ("length", "starts", "self_fed"):
            assert getattr(found, ask)(30 + epoch) == getattr(wanted, ask)(epoch)
        assert found.learning_rate(30 + epoch, 4 * (30 + epoch), 4) == wanted.learning_rate(epoch, 4 * epoch, 4)
    assert len({wanted.self_fed(epoch) for epoch in range(30)}) > 3

    run, other = trainer(tmp_path / "a", CALM), trainer(tmp_path / "b", CALM | {"staged": False})
    for epoch, (batch, _) in zip((3, 3), run.batches(run.groups(3)), strict=False):
        assert torch.equal(run.objective.losses(batch, epoch), other.objective.losses(batch, epoch))


def test_a_trajectory_too_short_for_a_stage_is_refused_by_name(tmp_path: Path) -> None:
    config = trainer(tmp_path / "run", CALM).model.config
    Schedule(TrainConfig(epochs=3), config, 4, even=True)
    for frames, even, words in ((3, True, "the data have 3"), (4, False, "unevenly spaced")):
        with pytest.raises(ConfigError, match=f"at least 4 of them; .*{words}.* a model without stages"):
            Schedule(TrainConfig(epochs=3), config, frames, even)


def test_windows_of_a_stage_start_anywhere(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", random_starts=False)
    frames = run.data.num_frames
    for stage, epochs, last in (("autoencoder", range(2), frames - 1), ("dynamics", range(2, 4), frames - 2)):
        starts = {window.start for epoch in epochs for group in run.groups(epoch) for window in group}
        assert starts == set(range(last + 1)), stage


def test_only_the_last_stage_is_selected_from(tmp_path: Path) -> None:
    run = trainer(tmp_path / "run", average=None, save_epochs=4)
    asked, real = [], run.validate

    def validate() -> float:
        asked.append(run.position.epoch)
        assert not (tmp_path / "run" / "surrogate").exists() or asked[0] > 2
        return real()

    run.validate = validate
    run.fit()
    assert asked == [3, 4]
    assert run.position.best_epoch in asked
    best = Surrogate.load(tmp_path / "run").card.metrics
    lines = [line for line in read_record(tmp_path / "run" / "metrics.jsonl") if "mean_loss" in line]
    assert [line["validation"] is None for line in lines] == [True] * 2 + [False] * 2
    assert best["validation"] == min(line["validation"] for line in lines[2:])


def test_the_dynamics_starts_from_what_the_autoencoder_kept(tmp_path: Path) -> None:
    """Where weights are averaged, the average; and tokens are standardized by it."""
    run = trainer(tmp_path / "run")
    entered: list[dict[str, torch.Tensor]] = []
    real = run._enter_stage

    def enter() -> None:
        kept = run._kept_weights()
        real()
        if run.position.epoch == 2:
            entered.extend([kept, run._weights(), {name: value.clone() for name, value in run.average.items()}])

    run._enter_stage = enter
    run.fit()
    kept, taken, average = entered
    assert all(torch.equal(kept[name], taken[name]) for name in kept if name not in ("dynamics.mean", "dynamics.std"))
    assert all(torch.equal(average[name], taken[name]) for name in taken)
    assert float((taken["dynamics.std"] - 1).abs().max()) > 0.01
    final = load_newest(tmp_path / "run" / "checkpoints")
    assert final is not None
    assert all(torch.equal(final[0].weights[name], taken[name]) for name in taken if name.startswith("autoencoder."))


class _Killed(Exception):
    pass


def stopped(run: Path, at: int, *, saving: bool, **options: Any) -> None:
    """Train until step `at`, and end without a word: after that step, or just before what it saves."""
    running = trainer(run, save_every=1, **options)
    name = "_save" if saving else "step"
    real = getattr(running, name)

    def end(*arguments: Any) -> Any:
        if running.position.step == at:
            raise _Killed
        return real(*arguments)

    setattr(running, name, end)
    with pytest.raises(_Killed):
        running.fit()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    with runs.single_thread():
        trainer(folder, save_every=1).fit()
    return folder


def test_stopped_in_each_stage_and_at_their_border(tmp_path: Path, whole: Path) -> None:
    run, border = tmp_path / "run", 2 * STEPS
    stopped(run, 3, saving=False)
    stopped(run, border, saving=True)  # the epoch is over, and the border not written
    stopped(run, border, saving=False)  # the border is written, and nothing after it
    stopped(run, border + 1, saving=False)
    stopped(run, 3 * STEPS + 2, saving=True)
    trainer(run, save_every=1).fit()
    runs.assert_same_run(run, whole)


def test_calm_is_stopped_in_each_stage_and_at_their_borders(tmp_path: Path) -> None:
    options: dict[str, Any] = {"model": CALM, "epochs": 3, "first_length": 2}
    trainer(tmp_path / "whole", save_every=1, **options).fit()
    run = tmp_path / "run"
    for at, saving in ((STEPS, True), (STEPS, False), (2 * STEPS, True), (2 * STEPS, False)):
        stopped(run, at, saving=saving, **options)
    stopped(run, 3 * STEPS - 1, saving=True, **options)
    trainer(run, save_every=1, **options).fit()
    runs.assert_same_run(run, tmp_path / "whole")


EPOCHS = pytest.mark.parametrize(
    ("model", "epoch"),
    [(MODEL, 0), (MODEL, 2), (CALM, 0), (CALM, 1), (CALM, 3)],
    ids=["aroma autoencoder", "aroma dynamics", "calm autoencoder", "calm dynamics", "calm whole"],
)


@EPOCHS
def test_the_shares_of_two_processes_are_the_whole(model: dict[str, Any], epoch: int, tmp_path: Path) -> None:
    """What a window draws, noise among it, is its own: losses and gradients are the same however a batch is split."""
    run = trainer(tmp_path / "run", model, precision="float64")
    run.position.epoch = epoch
    run.optimizer = run._optimizer()
    found = []
    for size in (1, 2):
        losses = [0.0] * STEPS
        run.model.zero_grad(set_to_none=True)
        for rank in range(size):
            run.processes.rank, run.processes.size = rank, size
            for place, (batch, weight) in enumerate(run.batches(run.groups(epoch))):
                loss = run.objective.losses(batch, epoch).sum() * weight
                loss.backward()
                losses[place] += float(loss.detach())
        found.append((losses, [weight.grad for weight in run.model.parameters() if weight.requires_grad]))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-12, abs=0)
    torch.testing.assert_close(found[0][1], found[1][1], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_two_processes_are_one(tmp_path: Path) -> None:
    train = {"precision": "float64", "epochs": 2}
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(recipe(**train).model_dump(mode="json", exclude_unset=True)))
    code, said = runs.ended(runs.start(tmp_path, "train", "my.yaml", command=TORCHRUN))
    assert code == 0, said
    trainer(tmp_path / "one", **train).fit()
    for name in ("loss", "validation"):
        found, wanted = (
            [value for value in numbers(folder, name) if value is not None]
            for folder in (tmp_path / "runs" / "tiny", tmp_path / "one")
        )
        assert found == pytest.approx(wanted, rel=1e-10, abs=0)
        assert len(wanted) == {"loss": 2 * STEPS, "validation": 1}[name]
