"""Campaigns: finished runs are kept, failures don't stop the others, and one that was killed ends as one that was not."""

from __future__ import annotations

import io
import math
import os
import re
import signal
import subprocess
import sys

import pytest
import torch
from rich.console import Console

from calm_pde import cli
from calm_pde.bench.measured.result import Failure, Result
from calm_pde.bench.measured.speed import speed
from calm_pde.bench.runs import campaign
from calm_pde.bench.runs.job import SuiteJob
from calm_pde.bench.runs.suite import load_suite, suite_names
from calm_pde.errors import CalmError, FileError
from calm_pde.files.locks import LOCK
from calm_pde.metrics.scores import Evaluation, FieldErrors
from calm_pde.metrics.values import Spread
from calm_pde.train.loop import Interrupted, Trainer
from calm_pde.train.record import read_record
from tests.bench.campaigns import MEASURED, SUITE, TIMES, job, lasting, write_suite
from tests.files.holders import holder
from tests.train.runs import ROOT


@pytest.fixture
def _unmeasured(monkeypatch):
    monkeypatch.setattr(campaign, "measured", lambda _: MEASURED)


@pytest.mark.usefixtures("_unmeasured")
def test_a_failure_is_told_and_the_others_go_on(tmp_path, monkeypatch):
    """A model that doesn't fit its data stands in the table with its reason; a second start tries it alone again."""
    models = {"pit": {"model": {"latent_mesh": [4, 4, 4]}}, "fno": SUITE["models"]["fno"]}
    made = job(tmp_path / "out", models=models)
    made.run()
    failed, done = made.campaign.found().values()
    assert isinstance(failed, Failure)
    assert "latent_mesh" in failed.reason
    assert isinstance(done, Result)
    assert (done.steps, done.parameters > 0, done.latent_numbers) == (4, True, 2 * 8 * 4 * 4)
    assert 0 < done.error < 10
    assert len(done.curve) == 4
    assert done.validation == min(error for _, error in done.curve)
    assert len(done.frame_errors) == 4
    assert sum(done.frame_errors) / 4 == pytest.approx(done.error, rel=1e-12)
    assert [seconds for seconds, _ in done.curve] == sorted(seconds for seconds, _ in done.curve)
    text = (tmp_path / "out" / "table.md").read_text()
    assert "| PIT | failed |" in text
    tried = []
    monkeypatch.setattr(campaign.Campaign, "_attempt", lambda _, trial: tried.append(trial.model) or failed)
    made.run()
    assert tried == ["pit"]
    assert made.campaign.found()["sample-fno-seed0"] == done


@pytest.mark.usefixtures("_unmeasured")
def test_a_killed_campaign_ends_as_one_that_was_never_touched(tmp_path):
    """Killed in the second of two runs: the first is kept as it is, the second goes on from its checkpoint."""
    path = write_suite(tmp_path)
    whole = SuiteJob(load_suite(str(path)), tmp_path / "whole", Console(quiet=True), steps=4)
    whole.run()
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "tests.bench.campaigns", "2", "3", str(path), str(out)]
    threads = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}  # on which the last bits of a sum depend
    ended = subprocess.run(command, cwd=ROOT, env=threads, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr
    runs = out / "runs"
    kept = (runs / "sample-fno-seed0" / "result.json").stat().st_mtime_ns
    assert not (runs / "sample-calm-seed0" / "result.json").exists()
    assert len(read_record(runs / "sample-calm-seed0" / "metrics.jsonl")) > 2
    console = Console(record=True, file=io.StringIO())
    resumed = SuiteJob(load_suite(str(path)), out, console, steps=4)
    resumed.run()
    said = console.export_text()
    assert "FNO on sample, seed 0: done before" in said
    assert "going on from step 2 of 4" in said
    assert (runs / "sample-fno-seed0" / "result.json").stat().st_mtime_ns == kept
    found, wanted = resumed.campaign.found(), whole.campaign.found()
    assert {name: lasting(one) for name, one in found.items()} == {name: lasting(one) for name, one in wanted.items()}
    for name in found:
        lines = [read_record(place / "runs" / name / "metrics.jsonl") for place in (out, tmp_path / "whole")]
        assert lines[0] == lines[1]
        clocks = [read_record(place / "runs" / name / "clock.jsonl") for place in (out, tmp_path / "whole")]
        assert [line["step"] for line in clocks[0]] == [line["step"] for line in clocks[1]]


def test_errors_go_frame_by_frame():
    """Of two fields, one of which is exactly zero in the second frame, and both in the third; relative L2 where a metric has no
    frames."""
    curves = {"u": (0.1, 0.2, math.nan), "v": (0.3, math.nan, math.nan)}
    fields = tuple(
        FieldErrors.model_validate(
            {"name": name, "relative_l2": spread(0.0), "frames": tuple(map(spread, curve))}
            | {"relative_l2_spacetime": spread(0.9)}
        )
        for name, curve in curves.items()
    )
    found = Evaluation.model_construct(fields=fields)
    for metric in ("relative_l2", "relative_l2_spacetime"):
        first, second, third = campaign.frame_errors(found, metric)
        assert (first, second) == pytest.approx((0.2, 0.2))
        assert math.isnan(third)


def spread(mean: float) -> Spread:
    return Spread(mean=mean, std=0.0)


@pytest.mark.usefixtures("_unmeasured")
def test_being_asked_to_stop_is_no_failure(tmp_path, monkeypatch):
    def stopped(_):
        raise Interrupted("SIGTERM: saved")

    monkeypatch.setattr(Trainer, "fit", stopped)
    made = job(tmp_path / "out")
    with pytest.raises(Interrupted):
        made.run()
    assert set(made.campaign.found().values()) == {None}


@pytest.mark.usefixtures("_unmeasured")
def test_one_run_of_the_list_at_a_time(tmp_path, monkeypatch, capsys):
    path = str(write_suite(tmp_path))
    monkeypatch.chdir(tmp_path)
    cli.main(["bench", path, "--steps", "2", "--index", "1"])
    assert "[1/1] CALM-PDE on sample, seed 0: test error" in capsys.readouterr().out
    cli.main(["bench", path, "--steps", "2", "--list"])
    first, second = capsys.readouterr().out.splitlines()
    assert first == "  0  FNO on sample, seed 0 (navier_stokes_2d_small): not run yet"
    assert re.fullmatch(r"  1  CALM-PDE on sample, seed 0 \(navier_stokes_2d_small\): test error \d\.\d{4}", second)
    assert (tmp_path / "bench" / "tiny" / "table.html").exists()
    with pytest.raises(SystemExit):
        cli.main(["bench", path, "--index", "2"])
    assert "index: expected 0 to 1, as --list shows them, got 2" in capsys.readouterr().err


@pytest.mark.usefixtures("_unmeasured")
def test_a_second_campaign_in_the_folder_is_refused(tmp_path):
    """Jobs of an array share the folder; each has that of its run for itself."""
    made = job(tmp_path / "out", steps=2)
    run = made.campaign.folder(made.trials[0])
    run.mkdir(parents=True)
    with holder(tmp_path / "out") as process:
        with pytest.raises(FileError, match=f"out: is in use by process {process.pid} on "):
            made.run()
        assert not list(run.iterdir())
        made.run(index=0)
        assert isinstance(made.campaign.found()["sample-fno-seed0"], Result)
    other = made.campaign.folder(made.trials[1])
    other.mkdir()
    with holder(other) as process, pytest.raises(FileError, match=f"{other.name}: is in use by process {process.pid} on "):
        made.run(index=1)
    assert made.campaign.found()[other.name] is None


def test_a_second_timing_in_the_folder_is_refused(tmp_path):
    with holder(tmp_path) as process, pytest.raises(FileError, match=f"is in use by process {process.pid} on "):
        speed(tmp_path, Console(quiet=True), small=True, repeats=1)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_a_suite_with_everything_small(tmp_path, monkeypatch, capsys):
    """A shipped suite from the missing data to the table, with its measurements, as a user types it."""
    monkeypatch.chdir(tmp_path)
    cli.main(["bench", "paper_curriculum", "--small", "--steps", "2", "--only", "FNO, autoregressive"])
    said = capsys.readouterr().out
    assert "is missing; making it: calm generate navier_stokes" in said
    out = tmp_path / "bench" / "paper_curriculum_small"
    made = SuiteJob(load_suite("paper_curriculum"), out, Console(), small=True, steps=2)
    (found,) = [one for one in made.campaign.found().values() if one is not None]
    assert isinstance(found, Result), found
    assert found.steps == 2
    assert 0 < found.inference_seconds < 60
    assert found.step_bytes
    assert found.inference_bytes is not None
    assert set(Result.model_fields) >= TIMES
    assert "0.1335 ± 0.0006" in (out / "table.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name", suite_names())
def test_every_suite_runs_small_for_two_steps(tmp_path, name):
    """All models of all suites on tiny data, measured; nothing fails. Ablations meet the first of their data sets alone."""
    suite = load_suite(name)
    if name == "plus_ablations":
        first = next(iter(suite.data))
        models = {model: entry for model, entry in suite.models.items() if not entry.data or first in entry.data}
        models = {model: entry.model_copy(update={"data": ()}) for model, entry in models.items()}
        suite = suite.model_copy(update={"data": {first: suite.data[first]}, "models": models})
    made = SuiteJob(suite, tmp_path, Console(), small=True, steps=2)
    made.run()
    found = made.campaign.found()
    assert {key: one for key, one in found.items() if not isinstance(one, Result)} == {}
    assert {one.steps for one in found.values()} <= {2, 3}  # three stages take a step each


def test_an_impossible_number_of_steps_is_told(tmp_path):
    with pytest.raises(CalmError, match="steps: expected at least 1, got 0"):
        job(tmp_path, steps=0)
