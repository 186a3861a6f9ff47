"""Objects show themselves in a notebook: by name, in words, with nothing that a browser would take for markup."""

from __future__ import annotations

from pathlib import Path

import torch

import calm_pde as cp
from calm_pde.data.writing import write
from calm_pde.notebook import html_table
from tests.data.sets import own_source, shared_source
from tests.surrogate.test_surrogate import small_surrogate


def test_a_table_escapes_and_leaves_out_what_is_empty() -> None:
    shown = html_table("a < b", {"fields": "u & v", "none": ""})
    assert "a &lt; b" in shown
    assert "u &amp; v" in shown
    assert "none" not in shown


def test_every_object_shows_itself(tmp_path: Path) -> None:
    source = shared_source(20, signals=("pump",), units={"phase": "rad"})
    file = write(source, tmp_path / "a.h5")
    surrogate = small_surrogate()
    for shown in (file, cp.Dataset(file), file.description):
        text = shown._repr_html_()
        assert "phase [rad]" in text
        assert "pump" in text
        assert "36 points shared by all" in text
    assert "16 train, 2 validation, 2 test" in file._repr_html_()
    assert "steady" in own_source(frames=1).description._repr_html_()
    assert "calm, " in surrogate._repr_html_()
    found = cp.evaluate(surrogate, file)._repr_html_()
    assert found.startswith("<pre>")
    assert "persistence" in found


def test_every_object_tells_in_a_line_what_it_is(tmp_path: Path) -> None:
    """No address in memory, and no columns of numbers."""
    source = shared_source(20, signals=("pump",))
    file = write(source, tmp_path / "a.h5")
    points, surrogate = file.description.points, small_surrogate()
    model = surrogate.model
    shown = {
        "Description(": file.description,
        "Trajectory(fields (5, 36, 2)": file.trajectory(0),
        "Batch(fields (1, 5, 36, 2), times (5,), points (36, 2)": next(cp.Dataset(file).batches()),
        "Inputs(values (1, 36, 2), points (36, 2))": cp.Inputs(torch.zeros(1, 36, 2), torch.zeros(36, 2)),
        "BakedSurrogate(Surrogate(calm of": surrogate.bake(points),
        "BakedCalm(points (36, 2), tokens (": model.bake(torch.rand(36, 2)),
    }
    for start, one in shown.items():
        told = repr(one)
        assert told.startswith(start), told
        assert "\n" not in told
        assert len(told) < 400
    assert "fields u [m/s], v; parameters phase" in repr(file.description)
