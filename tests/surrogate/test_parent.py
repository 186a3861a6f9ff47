"""A surrogate that another training goes on from: what has to be the same, what is doubted, whose statistics count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import calm_pde as cp
from calm_pde.errors import ConfigError, FileError
from calm_pde.records.description import Field
from calm_pde.surrogate.parent import Parent
from tests.train import runs


@pytest.fixture(scope="module")
def parent() -> Parent:
    return Parent(runs.finished())


def test_its_architecture_is_a_recipes(parent):
    """What the data say is left to the data."""
    assert parent.architecture["encoder"]["num_queries"] == [16, 8, 4]
    assert not {"dim", "in_channels", "out_channels", "periodic"} & parent.architecture.keys()
    assert parent.architecture["kind"] == "calm"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fields": (Field(name="speed"),)}, r"trained on fields \('vorticity',\), and these data have \('speed',\)"),
        ({"box": cp.Box((0.0, 0.0), (1.0, 1.0), False)}, r"periodic axes \(True, True\), and these data have \(False, False\)"),
        ({"box": cp.Box((0.0,), (1.0,), True)}, "dimensions 2, and these data have 1"),
        ({"times": np.zeros(1)}, "steady False, and these data have True"),
    ],
)
def test_data_of_another_kind_are_refused(parent, changes, words):
    parent.check(parent.surrogate.description)
    with pytest.raises(ConfigError, match=words):
        parent.check(replace(parent.surrogate.description, **changes))


def test_what_differs_is_doubted(parent):
    card = parent.surrogate.card
    assert list(parent.doubts(card, "old")) == []
    far = card.statistics.model_copy(update={"mean": (100.0,)})
    moved = card.model_copy(update={"upper": (2.0, 1.0), "times": tuple(3.0 * np.array(card.times)), "statistics": far})
    box, frame, mean = parent.doubts(moved, "old")
    assert "the box is (0.0, 0.0) to (2.0, 1.0), and was (0.0, 0.0) to (1.0, 1.0)" in box
    assert frame.startswith(f"a frame takes {3 * card.spacing:g}, and took {card.spacing:g}")
    assert mean.startswith("vorticity is 100 ±")
    assert "--statistics new" in mean
    assert len(list(parent.doubts(moved, "new"))) == 2


def test_old_statistics_know_the_new_range(parent):
    card = parent.surrogate.card
    wide = card.statistics.model_copy(update={"mean": (1.0,), "std": (9.0,), "highest": (1e3,)})
    new = card.model_copy(update={"statistics": wide})
    kept, taken = parent.card(new, "old"), parent.card(new, "new")
    assert (kept.statistics.mean, kept.statistics.std) == (card.statistics.mean, card.statistics.std)
    assert kept.statistics.highest == (1e3,)
    assert taken.statistics == wide
    told = kept.provenance["parent"]
    assert told["statistics"] == "old"
    assert told["data"] == card.provenance["data"]
    assert told["weights"] == parent.digest


def test_a_folder_without_a_surrogate_is_named(tmp_path):
    with pytest.raises(FileError, match="there is no such folder"):
        Parent(tmp_path / "none")
