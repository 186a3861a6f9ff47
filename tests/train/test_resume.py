"""A run that is killed, asked to stop, and started again is the run that was never touched, to the bit."""

from __future__ import annotations

import os
import shutil
import signal
import time
from functools import cache
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml

from calm_pde.data.arrays import from_arrays
from calm_pde.errors import CalmError, ConfigError, FileError
from calm_pde.files.locks import held
from calm_pde.geometry import Box
from calm_pde.train.checkpoint import load, load_newest, save, saved
from calm_pde.train.fit import fit
from calm_pde.train.record import read_record
from tests.train import runs
from tests.train.runs import one_thread  # noqa: F401

CALLS_OF_A_SAVE = 25
TRAIN = ("train", "my.yaml", "--out", "run")


def write_recipe(folder: Path, epochs: int, optimizer: str = "adamw") -> None:
    """With dropout, so that random states matter, and a save every second step, so that steps are done again."""
    changed = runs.recipe(
        model={"dropout": 0.1},
        train={
            "epochs": epochs,
            "save_every": 2,
            "average": 0.9,
            "random_offset": 0.1,
            "validate_every": 3,
            "optimizer": optimizer,
        },
    )
    (folder / "my.yaml").write_text(yaml.safe_dump(changed.model_dump(mode="json", exclude_unset=True)))


def uninterrupted(folder: Path, epochs: int, optimizer: str = "adamw") -> Path:
    folder.mkdir()
    write_recipe(folder, epochs, optimizer)
    code, said = runs.ended(runs.start(folder, *TRAIN))
    assert code == 0, said
    return folder / "run"


def kill_in_save(folder: Path, save: int, call: int, *options: str) -> None:
    process = runs.start(folder, str(save), str(call), *TRAIN, *options, command=("-m", "tests.train.runs"))
    code, said = runs.ended(process)
    assert code == -signal.SIGKILL, said
    runs.assert_latest_loads(folder / "run")


def kill_anywhere(folder: Path, lines: int, wait: float, *options: str) -> None:
    process = runs.start(folder, *TRAIN, *options)
    runs.wait_for_lines(folder / "run", lines, process)
    time.sleep(wait)
    os.killpg(process.pid, signal.SIGKILL)
    runs.ended(process)
    runs.assert_latest_loads(folder / "run")


def ask(folder: Path, number: signal.Signals, *options: str) -> None:
    """The signal goes to the whole group, as a terminal or a scheduler sends it."""
    process = runs.start(folder, *TRAIN, *options)
    runs.wait_for_lines(folder / "run", 2, process)
    os.killpg(process.pid, number)
    code, said = runs.ended(process)
    assert code == 130, said
    assert f"calm: {number.name}: saved at step" in said
    assert "Traceback" not in said
    step = int(said.split("saved at step ")[1].split()[0])
    found = load_newest(folder / "run" / "checkpoints")
    assert found is not None
    assert found[0].position.step == step == max(line["step"] for line in read_record(folder / "run" / "metrics.jsonl"))


def finish(folder: Path, wanted: Path, *options: str) -> None:
    code, said = runs.ended(runs.start(folder, *TRAIN, *options))
    assert code == 0, said
    assert "going on from step" in said
    runs.assert_same_run(folder / "run", wanted)
    left = [path.name for path in (folder / "run").rglob(".*")]
    assert left == []


def test_killed_and_asked_to_stop(tmp_path):
    """With Muon, beside which AdamW moves what is no matrix, so that the state of both comes back."""
    optimizer = "muon"
    wanted = uninterrupted(tmp_path / "whole", 7, optimizer)
    folder = tmp_path / "killed"
    folder.mkdir()
    write_recipe(folder, 7, optimizer)
    kill_in_save(folder, 2, 9)
    kill_anywhere(folder, 3, 0.03)
    kill_in_save(folder, 3, 17)
    ask(folder, signal.SIGTERM)
    ask(folder, signal.SIGINT, "--train.workers", "2")
    finish(folder, wanted)


@cache
def long_run(folder: Path, optimizer: str) -> Path:
    return uninterrupted(folder / f"whole_{optimizer}", 20, optimizer)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "optimizer"), [(0, "adamw"), (2, "adamw"), (0, "muon")])
def test_twenty_kills(tmp_path_factory, workers, optimizer):
    wanted = long_run(tmp_path_factory.getbasetemp(), optimizer)
    folder = tmp_path_factory.mktemp("killed")
    write_recipe(folder, 20, optimizer)
    draw = np.random.default_rng(workers)
    options = ("--train.workers", str(workers))
    for number in range(20):
        if number % 2:
            kill_in_save(folder, int(draw.integers(1, 4)), int(draw.integers(CALLS_OF_A_SAVE)), *options)
        else:
            kill_anywhere(folder, int(draw.integers(1, 4)), float(draw.uniform(0, 0.3)), *options)
    finish(folder, wanted, *options)


@pytest.fixture
def run(tmp_path) -> Path:
    shutil.copytree(runs.finished(), tmp_path / "run")
    return tmp_path / "run"


def test_other_settings_are_refused_with_the_difference(run):
    changed = runs.recipe(train={"learning_rate": 2e-3}, model={"processor": {"blocks": 2}})
    with pytest.raises(ConfigError) as error:
        fit(changed, run)
    assert "train.learning_rate: 0.001 then, 0.002 now" in str(error.value)
    assert "model.processor.blocks: 1 then, 2 now" in str(error.value)
    assert "--resume force" in str(error.value)


@pytest.mark.parametrize("setting", [{"workers": 1}, {"save_every": 3}, {"keep": 1}])
def test_settings_that_change_no_number_may_change(run, setting):
    assert runs.trainer(run, train=setting).position.step == 52


def test_a_checkpoint_from_before_a_setting_existed_goes_on(run):
    """It was trained as the setting's default says; other values are refused as ever."""
    newest = saved(run / "checkpoints")[-1]
    found = load(newest)
    for name in ("optimizer", "momentum", "warm_up", "fall"):
        del found.settings["train"][name]
    shutil.rmtree(newest)
    save(run / "checkpoints", found, keep=2)
    assert runs.trainer(run).position.step == 52
    with pytest.raises(ConfigError, match=r"train\.optimizer: 'adamw' then, 'muon' now"):
        runs.trainer(run, train={"optimizer": "muon"})


def test_other_data_are_refused(run, tmp_path):
    with h5py.File(runs.SAMPLE) as file:
        points, fields, times = (np.asarray(file[name]) for name in ("points", "fields", "times"))
    from_arrays(
        points, fields * 2, times, out=tmp_path / "other.h5", box=Box((0, 0), (1, 1), (True, True)), names=["vorticity"]
    )
    with pytest.raises(ConfigError, match=r"data\.fingerprint: '\w+' then, '\w+' now"):
        fit(runs.recipe(data={"file": str(tmp_path / "other.h5")}), run)


def test_force_goes_on_with_the_new_settings(run):
    changed = {"epochs": 14, "learning_rate": 2e-3, "average": 0.5}
    runs.trainer(run, force=True, train=changed).fit()
    lines = [line for line in read_record(run / "metrics.jsonl") if "loss" in line]
    assert [line["step"] for line in lines] == list(range(1, 57))
    assert lines[:52] == [line for line in read_record(runs.finished() / "metrics.jsonl") if "loss" in line]
    assert lines[52]["learning_rate"] == pytest.approx(2e-3 * 0.5 * (1 + np.cos(np.pi * 52 / 56)))


def test_never_refuses_a_run_that_is_there(run):
    before = [path.name for path in saved(run / "checkpoints")]
    with pytest.raises(CalmError, match="holds a run already"):
        fit(runs.recipe(), run, resume="never")
    assert [path.name for path in saved(run / "checkpoints")] == before


def test_a_second_training_in_the_folder_of_one_that_goes_is_refused(tmp_path):
    """And changes nothing there; the first, killed, leaves the folder to the next."""
    write_recipe(tmp_path, 7)
    process = runs.start(tmp_path, *TRAIN, "--train.epochs", "100000")
    runs.wait_for_lines(tmp_path / "run", 1, process)
    with pytest.raises(FileError, match=f"run: is in use by process {process.pid} on "):
        fit(runs.recipe(), tmp_path / "run")
    os.kill(process.pid, signal.SIGKILL)
    runs.ended(process)
    steps = [line["step"] for line in read_record(tmp_path / "run" / "metrics.jsonl") if "loss" in line]
    assert steps == list(range(1, len(steps) + 1))
    with held(tmp_path / "run"):
        pass


def test_a_finished_run_is_only_exported_again(run):
    shutil.rmtree(run / "surrogate")
    runs.trainer(run).fit()
    runs.assert_same_run(run, runs.finished())


def test_a_run_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CalmError, match="cannot be made"):
        runs.trainer(tmp_path / "file" / "run")
