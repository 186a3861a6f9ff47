"""The command line, as a user types it."""

from __future__ import annotations

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
