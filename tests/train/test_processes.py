"""Two processes on one batch are one process on it, and a process that dies takes no one's work with it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from calm_pde.train.record import read_record
from tests.train import runs
from tests.train.runs import one_thread  # noqa: F401

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "calm_pde")
TRAIN = ("train", "my.yaml")


def write_recipe(folder: Path, epochs: int, precision: str, optimizer: str = "adamw") -> dict[str, object]:
    """16 trajectories in batches of 5: the last holds one, fewer than there are processes."""
    train = {
        "epochs": epochs,
        "batch_size": 5,
        "precision": precision,
        "save_every": 2,
        "random_offset": 0.1,
        "optimizer": optimizer,
    }
    (folder / "my.yaml").write_text(yaml.safe_dump(runs.recipe(train=train).model_dump(mode="json", exclude_unset=True)))
    return train


def numbers(run: Path, name: str) -> list[float]:
    return [line[name] for line in read_record(run / "metrics.jsonl") if name in line]


def assert_as_one_process(folder: Path, train: dict[str, object], tolerance: float) -> None:
    runs.trainer(folder / "one", train=train).fit()
    for name in ("loss", "validation"):
        assert numbers(folder / "runs" / "tiny", name) == pytest.approx(numbers(folder / "one", name), rel=tolerance, abs=0)


def second_of(process: subprocess.Popen[str]) -> int:
    """The process of rank 1 among the children of torchrun."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return next(int(child) for child in children if b"\0RANK=1\0" in b"\0" + Path(f"/proc/{child}/environ").read_bytes())


def test_two_processes_one_killed_and_started_again(tmp_path):
    train = write_recipe(tmp_path, 3, "float64", "muon")
    process = runs.start(tmp_path, *TRAIN, command=TORCHRUN)
    runs.wait_for_lines(tmp_path / "runs" / "tiny", 4, process)
    os.kill(second_of(process), signal.SIGKILL)
    code, said = runs.ended(process)
    assert code not in (0, None), said
    assert "calm: distributed: another process has ended" in said or "Signal 9 (SIGKILL)" in said
    runs.assert_latest_loads(tmp_path / "runs" / "tiny")
    code, said = runs.ended(runs.start(tmp_path, *TRAIN, command=TORCHRUN))
    assert code == 0, said
    assert "going on from step" in said
    assert len(numbers(tmp_path / "runs" / "tiny", "loss")) == 12
    assert_as_one_process(tmp_path, train, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "tolerance", "optimizer"),
    [("float32", 1e-5, "adamw"), ("float64", 1e-10, "adamw"), ("float64", 1e-10, "muon")],
)
def test_two_processes_for_fifty_steps(tmp_path, precision, tolerance, optimizer):
    train = write_recipe(tmp_path, 13, precision, optimizer)
    code, said = runs.ended(runs.start(tmp_path, *TRAIN, command=TORCHRUN))
    assert code == 0, said
    assert_as_one_process(tmp_path, train, tolerance)


@pytest.mark.slow
def test_two_processes_leave_at_the_same_step(tmp_path):
    train = write_recipe(tmp_path, 3, "float64")
    process = runs.start(tmp_path, *TRAIN, command=TORCHRUN)
    runs.wait_for_lines(tmp_path / "runs" / "tiny", 3, process)
    os.kill(second_of(process), signal.SIGTERM)  # one of them only
    code, said = runs.ended(process)
    assert code not in (0, None), said
    assert "calm: SIGTERM: saved at step" in said
    assert runs.ended(runs.start(tmp_path, *TRAIN, command=TORCHRUN))[0] == 0
    assert_as_one_process(tmp_path, train, 1e-10)
