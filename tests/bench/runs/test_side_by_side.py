"""Commands side by side: all are run, failures are told, and who is asked to stop stops them all."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from calm_pde.bench.measured.result import Failure, Result
from calm_pde.bench.runs.job import SuiteJob, compare
from calm_pde.bench.runs.side_by_side import side_by_side
from calm_pde.bench.runs.suite import load_suite
from calm_pde.errors import CalmError
from tests.bench.campaigns import SUITE, lasting, write_suite
from tests.train.runs import ROOT, wait_for_lines


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_all_are_run_and_told_of_as_many_at_a_time_as_there_are_workers() -> None:
    begun: list[int] = []
    ended: dict[int, tuple[int, list[str]]] = {}
    most = 0

    def begins(place: int) -> None:
        nonlocal most
        begun.append(place)
        most = max(most, len(begun) - len(ended))

    commands = [python(f"import time; time.sleep(0.3); print('said', {n}); raise SystemExit({n % 2})") for n in range(5)]
    asked = side_by_side(commands, 2, begins, lambda place, code, said: ended.update({place: (code, said)}))
    assert asked is None
    assert sorted(begun) == [0, 1, 2, 3, 4]
    assert ended == {n: (n % 2, [f"said {n}\n"]) for n in range(5)}
    assert most <= 3  # an end is told a moment after the next has begun


def test_asked_to_stop_all_are_told_and_none_begins() -> None:
    begun: list[int] = []
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    start = time.monotonic()
    asked = side_by_side([python("import time; time.sleep(60)")] * 4, 2, begun.append, lambda *_: pytest.fail("ended"))
    assert asked == signal.SIGTERM
    assert sorted(begun) == [0, 1]
    assert time.monotonic() - start < 30


def test_a_campaign_side_by_side_is_one_after_the_other(tmp_path: Path) -> None:
    """And a second start has nothing left to do."""
    path = str(write_suite(tmp_path, models={"fno": SUITE["models"]["fno"]}))
    alone = SuiteJob(load_suite(path).with_changes(seeds=2), tmp_path / "alone", Console(quiet=True), steps=2)
    alone.run()
    compare(path, tmp_path / "beside", steps=2, seeds=2, workers=2)
    beside = SuiteJob(load_suite(path).with_changes(seeds=2), tmp_path / "beside", Console(quiet=True), steps=2)
    found, wanted = beside.campaign.found(), alone.campaign.found()
    assert {name: lasting(one) for name, one in found.items()} == {name: lasting(one) for name, one in wanted.items()}
    assert list(found) == ["sample-fno-seed0", "sample-fno-seed1"]
    console = Console(record=True, file=io.StringIO(), width=200)
    compare(path, tmp_path / "beside", steps=2, seeds=2, workers=2, console=console)
    assert console.export_text().count("done before") == 2
    assert " ± " in (tmp_path / "beside" / "table.md").read_text()


def test_a_failure_stands_in_the_table_and_the_others_go_on(tmp_path: Path) -> None:
    models = {"pit": {"model": {"latent_mesh": [4, 4, 4]}}, "fno": {"model": {"width": 4, "modes": 4}}}
    found = compare(write_suite(tmp_path, models=models), tmp_path / "out", steps=2, workers=2)
    failed, done = SuiteJob(found.suite, found.path, Console(quiet=True), steps=2).campaign.found().values()
    assert isinstance(failed, Failure)
    assert "latent_mesh" in failed.reason
    assert isinstance(done, Result)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_runs_leave_with_their_campaign_and_go_on_with_the_next(tmp_path: Path, how: signal.Signals) -> None:
    """Asked, it says where it stands; killed, its runs see that it is gone."""
    path = write_suite(tmp_path)
    command = [sys.executable, "-m", "calm_pde", "bench", str(path), "--steps", "2000", "--workers", "2", "--out", "out"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    runs = [tmp_path / "out" / "runs" / f"sample-{model}-seed0" for model in ("fno", "calm")]
    for run in runs:
        wait_for_lines(run, 3, process)
    process.send_signal(how)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == (130 if how == signal.SIGINT else -signal.SIGKILL), said
    if how == signal.SIGINT:
        assert "calm: SIGINT: saved in out. The same command goes on from there." in said
    deadline = time.monotonic() + 60
    while any((run / ".lock").exists() for run in runs) and time.monotonic() < deadline:
        time.sleep(0.1)
    for run in runs:
        assert not (run / ".lock").exists()
        assert (run / "checkpoints" / "latest").exists()


def test_no_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CalmError, match="workers: expected at least 1, got 0"):
        compare(write_suite(tmp_path), tmp_path / "out", steps=2, workers=0)
