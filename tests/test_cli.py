"""The command line, as a user types it."""

from __future__ import annotations

import h5py
import pytest

from calm_pde.cli import main


def test_demo_prints_shapes_and_parameters(capsys):
    main(["demo", "--num-steps", "2"])
    shown = capsys.readouterr().out
    for word in ("2,230,883 parameters", "64×64 grid", "random", "1 × 16 × 128", "606,274", "MiB", "ms"):
        assert word in shown


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["demo", "--preset", "navier_stokes"], "Did you mean 'navier_stokes_2d'?"),
        (["demo", "--preset", "burgers_1d"], "2-D rollout"),
        (["demo", "--sed", "1"], "--seed"),
        (["dem"], "demo"),
    ],
)
def test_wrong_turns_get_a_hint(capsys, arguments, word):
    with pytest.raises(SystemExit) as leave:
        main(arguments)
    assert leave.value.code == 2
    assert word in capsys.readouterr().err


def test_generate_check_and_their_exit_codes(capsys, tmp_path):
    out = tmp_path / "b.h5"
    main(["generate", "burgers", "--points", "64", "--frames", "3", "--duration", "0.02", "--samples", "10", "--out", str(out)])
    main(["check", str(out), "--preset", "burgers_1d"])
    shown = capsys.readouterr().out
    assert "10 of 10" in shown
    assert "Ready to train." in shown
    assert "MiB" in shown
    assert out.with_suffix(".png").stat().st_size > 5000
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
        (["check", "none.h5"], "there is no such file"),
        (["generate"], "burgers"),
    ],
)
def test_wrong_turns_with_data_get_a_hint(capsys, arguments, word):
    with pytest.raises(SystemExit) as leave:
        main(arguments)
    assert leave.value.code == 2
    assert word in capsys.readouterr().err
