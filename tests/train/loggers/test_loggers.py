"""Loggers get every number of a run once and in order, go on where it was interrupted, and are named where they are missing."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from calm_pde import cli
from calm_pde.errors import ConfigError
from calm_pde.train.config import TrainConfig
from calm_pde.train.loggers import LOGGERS
from calm_pde.train.loggers.mlflow import EXPERIMENT
from calm_pde.train.record import read_record
from tests.train import runs

one_thread = runs.one_thread


class Board:
    """Stands in for torch.utils.tensorboard.SummaryWriter: what is written, by name and step; steps from a purge on go."""

    written: dict[str, dict[str, dict[int, float]]] = {}  # noqa: RUF012
    closed = 0

    def __init__(self, log_dir: str, purge_step: int) -> None:
        self.values = self.written.setdefault(log_dir, {})
        for steps in self.values.values():
            for step in [step for step in steps if step >= purge_step]:
                del steps[step]

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.values.setdefault(tag, {})[global_step] = scalar_value

    def close(self) -> None:
        type(self).closed += 1


class WandbRun:
    """Stands in for a run of Weights & Biases: the history, line by line."""

    def __init__(self, known: dict[str, WandbRun], **options: Any) -> None:
        self.options, self.id = options, options["id"] or f"made{len(known)}"
        self.history: list[dict[str, float]] = known[self.id].history if self.id in known else []
        self.metrics: dict[str, str] = {}
        self.exit_code: int | None = None
        known[self.id] = self

    def define_metric(self, name: str, step_metric: str) -> None:
        self.metrics[name] = step_metric

    def log(self, data: dict[str, float]) -> None:
        self.history.append(data)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


@pytest.fixture
def wandb(monkeypatch) -> dict[str, WandbRun]:
    known: dict[str, WandbRun] = {}
    module = ModuleType("wandb")
    module.init = lambda **options: WandbRun(known, **options)  # pyright: ignore
    monkeypatch.setitem(sys.modules, "wandb", module)
    return known


def recorded(run: Path) -> dict[str, dict[int, float]]:
    """What the run itself has written down, as loggers get it."""
    lines = read_record(run / "metrics.jsonl")
    steps = [line for line in lines if "loss" in line]
    epochs = [line for line in lines if line.get("validation") is not None]
    return {
        "loss": {line["step"]: line["loss"] for line in steps},
        "learning rate": {line["step"]: line["learning_rate"] for line in steps},
        "validation": {line["step"]: line["validation"] for line in epochs},
    }


def halves(run: Path, log: str) -> None:
    """A run of three epochs, interrupted in the second after its last step and gone on with from the end of the first."""
    changes = {"train": {"epochs": 3, "log": [log]}}
    runs.interrupted(run, after=2, **changes)
    runs.trainer(run, **changes).fit()


def test_tensorboard_has_every_number(tmp_path, monkeypatch):
    Board.written.clear()
    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Board  # pyright: ignore
    monkeypatch.setitem(sys.modules, module.__name__, module)
    halves(tmp_path / "run", "tensorboard")
    assert Board.written[str(tmp_path / "run" / "tensorboard")] == recorded(tmp_path / "run")
    assert Board.closed == 2


def test_wandb_has_every_number_in_one_run(tmp_path, wandb):
    halves(tmp_path / "run", "wandb")
    (run,) = wandb.values()
    assert run.options["project"] == "calm-pde"
    assert run.options["resume"] == "allow"
    assert run.options["config"]["train"]["epochs"] == 3
    assert run.metrics == {"*": "step"}
    assert run.exit_code == 0
    found: dict[str, dict[int, float]] = {}
    for line in run.history:
        step = line.pop("step")
        for name, value in line.items():
            found.setdefault(name, {})[int(step)] = value
    assert found == recorded(tmp_path / "run")


def test_mlflow_keeps_every_number_in_its_store(tmp_path, monkeypatch):
    """Read from the files of its store, not by its client."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that it brings
        halves(tmp_path / "run", "mlflow")
    kept = (tmp_path / "run" / "mlflow.txt").read_text()
    (stored,) = [path for path in (tmp_path / "mlruns").glob("*/*") if path.name == kept]
    assert f"name: {EXPERIMENT}" in (stored.parent / "meta.yaml").read_text()
    found = {}
    for path in (stored / "metrics").iterdir():
        rows = [line.split() for line in path.read_text().splitlines()]
        found[path.name] = {int(step): float(value) for _, value, step in rows}
    wanted = recorded(tmp_path / "run")
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        assert found[name] == pytest.approx(values)
    assert (stored / "params" / "train.epochs").read_text() == "3"
    assert json.loads((stored / "params" / "model.encoder.num_queries").read_text()) == [16, 8, 4]
    assert "status: 3" in (stored / "meta.yaml").read_text()  # finished


@pytest.mark.parametrize("name", LOGGERS)
def test_a_missing_extra_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, {"tensorboard": "torch.utils.tensorboard"}.get(name, name), None)
    extra = LOGGERS[name].extra
    with pytest.raises(ConfigError, match=rf"train\.log: .* is not installed .* pip install 'calm-pde\[{extra}\]'"):
        runs.trainer(tmp_path / "run", train={"epochs": 1, "log": [name]}).fit()


def test_the_old_setting_is_read():
    """In recipes and in files that older versions wrote."""
    assert TrainConfig.model_validate({"tensorboard": True, "log": ["wandb"]}).log == ("tensorboard", "wandb")
    assert TrainConfig.model_validate({"tensorboard": False}) == TrainConfig()
    with pytest.raises(ConfigError, match=r"log: 0: Input should be .*got 'tensorbord'"):
        TrainConfig.model_validate({"log": ["tensorbord"]})


@pytest.mark.parametrize("words", [["--train.tensorboard", "true"], ["--train.tensorboard"], ["--train.no-tensorboard"]])
def test_the_old_option_is_explained(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        cli.main(["train", "burgers_1d", *words])
    assert "Say: --train.log tensorboard" in capsys.readouterr().err
