"""The command line, as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys

import h5py
import pytest

from calm_pde.cli import main


@pytest.mark.parametrize(("given", "kept"), [(None, "PASSIVE 1000"), ("ACTIVE", "ACTIVE None")])
def test_waiting_threads_sleep_unless_the_user_said_otherwise(given, kept):
    """The policy is set before torch loads, which is when OpenMP reads it."""
    code = (
        "import os, sys, importlib.abc, runpy\n"
        "class Watch(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'torch': \n"
        "            print('torch loads with', *map(os.environ.get, ['OMP_WAIT_POLICY', 'GOMP_SPINCOUNT'])); sys.exit()\n"
        "sys.meta_path.insert(0, Watch())\n"
        "sys.argv = ['calm', '--help']\n"
        "runpy.run_module('calm_pde', run_name='__main__')\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")}
    environment |= {} if given is None else {"OMP_WAIT_POLICY": given}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert run.stdout == f"torch loads with {kept}\n"


def test_demo_ends_with_a_report_and_goes_on(capsys, tmp_path):
    """A demo of one epoch; started again, it has nothing left to do but to show the result."""
    arguments = ["demo", "--folder", str(tmp_path / "demo"), "--epochs", "1", "--samples", "10"]
    main(arguments)
    first = capsys.readouterr().out
    for word in ("is missing; making it", "10 of 10", "epoch 1/1", "persistence", "report.html"):
        assert word in first
    assert (tmp_path / "demo" / "report.html").stat().st_size > 20000
    assert (tmp_path / "demo" / "run" / "evaluation.json").exists()
    main(arguments)
    again = capsys.readouterr().out
    assert "going on from step 1 of 1" in again
    assert "epoch 1/1" not in again


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["train", "navier_stoks_2d"], "Did you mean 'navier_stokes_2d'?"),
        (["train"], "Shipped recipes"),
        (["train", "airfoil_2d"], "data/airfoil_2d.h5: there is no such file"),
        (["train", "navier_stokes_2d_demo", "--train.epoch", "3"], "--train.epochs"),
        (["evaluate", "none"], "there is no such folder"),
        (["predict", "none", "--input", "x.h5", "--out", "y.h5"], "there is no such folder"),
        (["demo", "--epoch", "1"], "--epochs"),
        (["dem"], "demo"),
    ],
)
def test_wrong_turns_get_a_hint(capsys, tmp_path, monkeypatch, arguments, word):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as leave:
        main(arguments)
    assert leave.value.code == 2
    assert word in capsys.readouterr().err


def test_a_training_that_never_began_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["train", "none.h5"])
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]


def test_who_reads_the_output_may_leave():
    """As `calm … | head -1` does: no traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "calm_pde", "generate", "burgers", "--help"]
    run = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert run.stderr == ""


def test_a_file_that_does_not_fit_the_recipe_is_named(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    main(["generate", "burgers", "--points", "64", "--frames", "3", "--duration", "0.02", "--samples", "10", "--out", "b.h5"])
    with pytest.raises(SystemExit):
        main(["train", "navier_stokes_2d_small", "--data.file", "b.h5"])
    assert "navier_stokes_2d is 2-D, and b.h5 is 1-D" in capsys.readouterr().err


def test_generate_check_and_their_exit_codes(capsys, tmp_path):
    out = tmp_path / "b.h5"
    main(["generate", "burgers", "--points", "64", "--frames", "3", "--duration", "0.02", "--samples", "10", "--out", str(out)])
    main(["check", str(out), "--preset", "burgers_1d"])
    shown = capsys.readouterr().out
    assert "10 of 10" in shown
    assert "Ready to train, with 1 doubt; see above." in shown  # there are few trajectories
    assert "MiB" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["b.h5"]  # nothing that nobody asked for
    main(["check", str(out), "--picture", str(tmp_path / "look.png")])
    assert f"A picture of trajectory 0 is in {tmp_path / 'look.png'}" in capsys.readouterr().out
    assert (tmp_path / "look.png").stat().st_size > 5000
    with h5py.File(out, "a") as file:
        file["fields"][0, 0, 0, 0] = float("nan")
    with pytest.raises(SystemExit) as leave:
        main(["check", str(out)])
    assert leave.value.code == 1
    assert "wrong    finite: 1 trajectories hold NaN" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["generate", "burger"], "Did you mean 'burgers'?"),
        (["generate", "burgers"], "--out"),
        (["generate", "burgers", "--out", "x.h5", "--points", "-3"], "points"),
        (["generate", "burgers", "--out", "x.h5", "--sample", "3"], "--samples"),
        (["convert", "pdebnch"], "Did you mean 'pdebench'?"),
        (["convert", "vtu"], "For .vtu files say: calm convert vtk"),
        (["check", "none.h5"], "there is no such file"),
        (
            ["check", "none.h5", "--picture", "x.text"],
            "picture: expected a file name that ends in .png",
        ),
        (["check", "none.h5", "--picture", "none/x.png"], "none: there is no such folder"),
        (["generate"], "burgers"),
    ],
)
def test_wrong_turns_with_data_get_a_hint(capsys, arguments, word):
    with pytest.raises(SystemExit) as leave:
        main(arguments)
    assert leave.value.code == 2
    assert word in capsys.readouterr().err
