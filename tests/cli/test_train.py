"""`calm train`: what stands on its command line counts, and what does not is left to recipe and rule."""

from __future__ import annotations

from typing import Any

import pytest

from calm_pde import cli
from calm_pde.cli import train as command
from calm_pde.train.config import Recipe


@pytest.fixture
def asked(monkeypatch) -> list[tuple[Recipe, dict[str, Any]]]:
    """What a training is asked for, instead of one."""
    calls: list[tuple[Recipe, dict[str, Any]]] = []
    monkeypatch.setattr(command, "fit", lambda recipe, out, **options: calls.append((recipe, {"out": out} | options)))
    return calls


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], {}),
        (["--train.epochs", "3"], {"epochs": 3}),
        (["--train.batch-size=4", "--train.learning_rate", "1e-3"], {"batch_size": 4, "learning_rate": 1e-3}),
        (["--train.curriculum", "false"], {"curriculum": False}),
        (["--train.no-curriculum"], {"curriculum": False}),
        (["--train.random_starts=True"], {"random_starts": True}),
        (["--train.log", "mlflow", "wandb"], {"log": ("mlflow", "wandb")}),
        (["--train.epochs", "500"], {"epochs": 500}),
    ],
)
def test_only_what_is_said_is_changed(words, wanted, asked):
    """A setting at its default is said too, where it is said."""
    cli.main(["train", "mine.h5", *words])
    recipe, options = asked[0]
    assert options["changes"] == {"data": {}, "train": wanted}
    assert recipe.train.model_fields_set == set()
    assert recipe.data.model_fields_set == {"file"}


def test_data_model_and_time_are_said_too(asked):
    line = "train burgers_1d_small --data.file b.h5 --model.processor.blocks 3 --minutes 2 --from old --statistics new"
    cli.main(line.split())
    recipe, options = asked[0]
    assert str(options["changes"]["data"]["file"]) == "b.h5"
    assert recipe.model["processor"] == {"blocks": 3}
    assert (options["minutes"], str(options["parent"]), options["statistics"]) == (2.0, "old", "new")


def test_wrong_options_end_in_words(capsys):
    for words, told in ((["--train.epoch", "3"], "--train.epochs"), (["--train.curriculum", "perhaps"], "perhaps")):
        with pytest.raises(SystemExit) as leave:
            cli.main(["train", "mine.h5", *words])
        assert leave.value.code == 2
        assert told in capsys.readouterr().err
