"""Small runs that the tests of this folder share: a tiny recipe, runs in processes of their own, and what makes two runs equal.

`python -m tests.train.runs SAVE CALL train …` is `calm train …` that SIGKILLs itself at one disk call of one save.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from calm_pde import cli
from calm_pde.config import merged
from calm_pde.files import folders
from calm_pde.train import loop
from calm_pde.train.checkpoint import load_newest, saved
from calm_pde.train.config import Recipe
from calm_pde.train.loop import Interrupted, Trainer
from calm_pde.train.record import read_record
from calm_pde.train.show import Show

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "examples" / "sample.h5"
DISK_CALLS = ("write", "fsync", "rename", "replace", "mkdir")
DEADLINE = 300.0  # seconds that a run may take on a busy machine

RECIPE: dict[str, Any] = {
    "name": "tiny",
    "data": {"file": str(SAMPLE), "frame_stride": 4, "conditions": False},  # tests here ask models by hand
    "model": {
        "kind": "calm",
        "encoder": {
            "channels": [4, 8, 8],
            "num_queries": [16, 8, 4],
            "receptive_field": [0.05, 0.5, 0.5],
            "temperature": [1.0, 1.0, 1.0],
        },
        "decoder": {
            "channels": [8, 4],
            "num_queries": [8, 16],
            "receptive_field": [0.5, 0.5, 0.2],
            "temperature": [1.0, 1.0, 1.0],
        },
        "processor": {"heads": 2, "blocks": 1},
    },
    "train": {"epochs": 13, "batch_size": 4, "first_length": 2},
}


def recipe(**changes: Any) -> Recipe:
    """The tiny recipe with nested changes."""
    return Recipe.model_validate(merged(RECIPE, changes))


def trainer(run: Path, *, force: bool = False, **changes: Any) -> Trainer:
    """In this process, without a word."""
    return Trainer(recipe(**changes), run, Show(Console(quiet=True)), force=force)


class _Stopping(Show):
    def __init__(self, after: int) -> None:
        super().__init__(Console(quiet=True))
        self.after = after

    def epoch(self, trainer: Trainer, losses: list[float], error: float | None) -> None:
        super().epoch(trainer, losses, error)
        if trainer.position.epoch == self.after:
            raise Interrupted("as asked")


def interrupted(run: Path, after: int, **changes: Any) -> None:
    """A run that ends with an epoch, before that is saved."""
    show = _Stopping(after)
    with pytest.raises(Interrupted, match="as asked"):
        Trainer(recipe(**changes), run, show).fit()
    show.close()


@contextmanager
def single_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Numbers are equal to the bit, and tiny runs are quick, with one thread."""
    with single_thread():
        yield


@cache
def finished(epochs: int = 13) -> Path:
    """The folder of one run to the end, for all to copy and none to change."""
    folder = Path(tempfile.mkdtemp(prefix="calm_run_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with single_thread():
        trainer(folder / "run", train={"epochs": epochs}).fit()
    return folder / "run"


Process = subprocess.Popen[str]


def start(folder: Path, *arguments: str, command: tuple[str, ...] = ("-m", "calm_pde"), **options: Any) -> Process:
    """`calm …` as a user would start it in a folder, with one thread."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, *command, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **options,
    )


def ended(process: Process) -> tuple[int, str]:
    """The exit code and all that was said."""
    try:
        said, _ = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, said


def wait_for_lines(run: Path, count: int, process: Process) -> None:
    """Until the record of a run has so many lines more than it has now."""
    record, begin = run / "metrics.jsonl", time.monotonic()
    wanted = count + (len(record.read_bytes().splitlines()) if record.exists() else 0)
    while not record.exists() or len(record.read_bytes().splitlines()) < wanted:
        if process.poll() is not None or time.monotonic() - begin > DEADLINE:
            raise RuntimeError(f"the run ended too early with {process.poll()}: {process.communicate()[0]}")
        time.sleep(0.005)


def assert_same_run(run: Path, other: Path) -> None:
    """Every line of the record, the weights, the optimizer and the position are equal to the bit."""
    assert read_record(run / "metrics.jsonl") == read_record(other / "metrics.jsonl")
    found, wanted = load_newest(run / "checkpoints"), load_newest(other / "checkpoints")
    assert found is not None
    assert wanted is not None
    assert found[0].position == wanted[0].position
    for name in ("weights", "optimizer", "best", "average", "queries"):
        assert_same_tensors(getattr(found[0], name), getattr(wanted[0], name))
    surrogates = [folders.Folder(folder / "surrogate").tensors("weights") for folder in (run, other)]
    assert_same_tensors(*surrogates)


def assert_same_tensors(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if not torch.equal(found[name], wanted[name])] == []


def assert_latest_loads(run: Path) -> None:
    """`latest` names a checkpoint, and the newest one is whole."""
    folder = run / "checkpoints"
    if saved(folder):
        found = load_newest(folder)
        assert found is not None
        assert found[1] == []
        if (folder / "latest").exists():  # the first save may have ended before it
            folders.Folder(folder / (folder / "latest").read_text())


class Tripwire:
    """Counts the calls that change a disk while it is set, and at one of them does something first.

    Args:
        at: which call, from 0; -1 for none.
        stays: whether every later call trips too.
    """

    def __init__(self, at: int, action: Callable[[], None], *, stays: bool = False) -> None:
        self.at, self.action, self.stays = at, action, stays
        self.count = 0
        self._real: dict[str, Callable[..., Any]] = {}

    @property
    def tripped(self) -> bool:
        return 0 <= self.at < self.count

    def __enter__(self) -> Tripwire:
        self._real = {name: getattr(os, name) for name in DISK_CALLS}
        for name in DISK_CALLS:
            setattr(os, name, self._watched(name))
        return self

    def __exit__(self, *_: object) -> None:
        for name, real in self._real.items():
            setattr(os, name, real)

    def _watched(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            here, self.count = self.count, self.count + 1
            if here == self.at or (self.stays and 0 <= self.at < here):
                if name == "write":  # half of it comes to the disk
                    self._real[name](arguments[0], arguments[1][: len(arguments[1]) // 2])
                self.action()
            return self._real[name](*arguments, **options)

        return call


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    which, at, *arguments = sys.argv[1:]
    left, real = [int(which)], loop.save

    def save(*given: Any) -> None:
        left[0] -= 1
        with Tripwire(int(at) if left[0] == 0 else -1, _kill):
            real(*given)

    loop.save = save
    cli.main(arguments)


if __name__ == "__main__":
    main()
