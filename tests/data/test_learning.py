"""`calm check` says what matters for learning: conditions, what tells trajectories apart, time steps, splits."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import calm_pde as cp
from calm_pde.cli import main
from calm_pde.data.check import check
from calm_pde.data.finding import Finding
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.records.description import Prescribed
from calm_pde.records.trajectory import Source
from tests.data.sets import own_source, shared_source

POINTS, TIMES = np.random.default_rng(0).uniform(size=(12, 2)), np.arange(6) / 5


def found(file: DataFile) -> dict[str, Finding]:
    return {finding.subject: finding for finding in check(file)}


def heated(path: Path, same_start: bool = True, **more: Any) -> DataFile:
    """Twenty rods that warm up at different speed, from one temperature or from their own."""
    speed = np.linspace(1, 2, 20)
    start = 0 if same_start else speed[:, None]
    fields = (np.sin(speed[:, None] * TIMES) + start)[:, :, None, None] + np.zeros((20, 6, 12, 1))
    return cp.from_arrays(POINTS, fields, TIMES, out=path, names=["temperature"], **more)


def test_which_conditions_vary_is_told(tmp_path: Path) -> None:
    told = heated(
        tmp_path / "a.h5",
        parameters={"speed": np.linspace(1, 2, 20), "length": np.full(20, 3.0)},
        signals={"wall": np.sin(TIMES), "pump": np.full(6, 2.0), "valve": np.random.default_rng(0).normal(size=(20, 6))},
        features=np.stack([POINTS[:, 0], np.ones(12)], axis=1),
        feature_names=["x", "flag"],
        units={"speed": "1/s", "wall": "K"},
    )
    findings = found(told)
    assert (findings["parameter speed"].level, findings["parameter speed"].text) == ("good", "1 … 2 1/s")
    assert findings["parameter length"].level == "doubtful"
    assert findings["parameter length"].text == "constant, 3 everywhere: it tells a model nothing"
    assert findings["signal wall"].text.endswith("K, the same in all trajectories")
    assert findings["signal pump"].level == findings["feature flag"].level == "doubtful"
    assert "trajectories" not in findings["signal valve"].text
    assert findings["knots"].level == "good"
    assert findings["frame 0"].level == "good"
    assert findings["frame 0"].text.endswith("what tells them apart, and a model must be given: speed, valve")


def test_the_same_first_frame_needs_something_that_tells_trajectories_apart(tmp_path: Path) -> None:
    bare = found(heated(tmp_path / "a.h5"))["frame 0"]
    assert (bare.level, "nothing else tells a model" in bare.text) == ("doubtful", True)
    constant = found(heated(tmp_path / "b.h5", parameters={"length": np.ones(20)}))["frame 0"]
    assert constant.level == "doubtful"
    assert "frame 0" not in found(heated(tmp_path / "c.h5", same_start=False))
    sizes = np.arange(5, 25)
    clouds = [np.random.default_rng(size).uniform(size=(size, 2)) for size in sizes]
    fields = [np.tile(np.linspace(0, 1 / size, 6)[:, None, None], (1, size, 1)) + 293 for size in sizes]
    own = found(cp.from_arrays(clouds, fields, TIMES, out=tmp_path / "d.h5"))["frame 0"]
    assert (own.level, "nothing but the mesh" in own.text) == ("doubtful", True)


def test_the_verdict_counts_doubts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    heated(tmp_path / "a.h5", parameters={"speed": np.linspace(1, 2, 20)})
    main(["check", str(tmp_path / "a.h5")])
    assert capsys.readouterr().out.endswith("Ready to train.\n")
    heated(tmp_path / "b.h5")
    main(["check", str(tmp_path / "b.h5")])
    assert capsys.readouterr().out.endswith("Ready to train, with 1 doubt; see above.\n")


def test_coarse_time_steps_are_told(tmp_path: Path) -> None:
    """sin(t − x): from t to t + Δ it changes by 2 sin(Δ/2) of itself."""
    fine = found(write(shared_source(20), tmp_path / "a.h5"))["steps"]
    assert (fine.level, "u 0.49" in fine.text) == ("good", True)
    coarse = found(write(shared_source(20, times=2.0 * np.arange(5)), tmp_path / "b.h5"))["steps"]
    assert (coarse.level, "u 1.7" in coarse.text) == ("doubtful", True)
    assert "steps" not in found(write(own_source(20, frames=1), tmp_path / "c.h5"))


def test_what_never_changes_in_time_is_better_given(tmp_path: Path) -> None:
    """A material that was copied into a channel; prescribed everywhere it is given already."""
    speed = np.linspace(1, 2, 20)[:, None, None]
    fields = np.stack([np.sin(speed * TIMES[:, None]) + 0 * POINTS[:, 0], speed + POINTS[:, 0] + 0 * TIMES[:, None]], axis=-1)
    names = ["temperature", "conductivity"]
    copied = found(cp.from_arrays(POINTS, fields, TIMES, out=tmp_path / "a.h5", names=names))
    assert copied["conductivity in time"].level == "doubtful"
    assert copied["conductivity in time"].text.startswith("never changes; as a feature or a parameter it is given to a model")
    assert "temperature in time" not in copied
    known = found(cp.from_arrays(POINTS, fields, TIMES, out=tmp_path / "b.h5", names=names, prescribed={"conductivity": []}))
    assert "conductivity in time" not in known


@pytest.mark.parametrize(
    ("conditions", "verdict"),
    [
        ("false", "doubtful recipe mine.yaml: its model is not told speed, length (data.conditions)"),
        ("[speed]", "doubtful recipe mine.yaml: its model is not told length (data.conditions)"),
        ("true", "good     recipe mine.yaml: its model is told all conditions"),
    ],
)
def test_what_a_recipe_leaves_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], conditions: str, verdict: str
) -> None:
    monkeypatch.chdir(tmp_path)
    heated(tmp_path / "a.h5", parameters={"speed": np.linspace(1, 2, 20), "length": np.linspace(1, 3, 20)})
    (tmp_path / "mine.yaml").write_text(f"data: {{file: a.h5, conditions: {conditions}}}\n")
    main(["check", "a.h5", "--recipe", "mine.yaml"])
    assert verdict in capsys.readouterr().out.splitlines()


def test_small_splits_are_told(tmp_path: Path) -> None:
    few = found(write(shared_source(10), tmp_path / "a.h5"))["split"]
    assert few.level == "doubtful"
    assert "fewer than 10 training trajectories" in few.text
    assert "a single validation or test trajectory" in few.text
    assert found(write(shared_source(20), tmp_path / "b.h5"))["split"].level == "good"


def test_conditions_that_are_not_finite_or_not_known_in_time_are_wrong(tmp_path: Path) -> None:
    source = shared_source(20, signals=("pump",))
    given = list(source.trajectories)
    given[3] = dataclasses.replace(given[3], parameters=np.array([np.nan]))
    given[5] = dataclasses.replace(given[5], signals=np.full_like(given[5].signals, np.inf))
    write(Source(source.description, given, 20), tmp_path / "a.h5").close()
    with h5py.File(tmp_path / "a.h5", "a") as raw:
        raw["signal_times"][1] = 99.0
    findings = found(DataFile(tmp_path / "a.h5"))
    for subject, which in (("parameters", 3), ("signals", 5), ("knots", 0)):
        assert findings[subject].level == "wrong"
        assert findings[subject].text.startswith("1 trajectories")
        assert findings[subject].text.endswith(str(which))


def test_what_is_prescribed_is_there(tmp_path: Path) -> None:
    given = (Prescribed(field="u"), Prescribed(field="v", node_types=(6,)), Prescribed(field="w"))
    findings = found(write(shared_source(20, prescribed=given), tmp_path / "a.h5"))
    assert (findings["prescribed u"].level, findings["prescribed u"].text) == ("good", "given, not predicted: everywhere")
    assert "there are no node types 6; there are none" in findings["prescribed v"].text
    assert "there is no such field; there are u, v" in findings["prescribed w"].text
    assert findings["prescribed v"].level == findings["prescribed w"].level == "wrong"


def test_many_conditions_are_told_in_one_line(tmp_path: Path) -> None:
    parameters = np.random.default_rng(0).normal(size=(20, 30))
    parameters[:, 7] = 4
    findings = found(heated(tmp_path / "a.h5", parameters=parameters))
    assert (findings["parameters, 30"].level, "constant: p7:" in findings["parameters, 30"].text) == ("doubtful", True)
    assert not [subject for subject in findings if subject.startswith("parameter ")]
