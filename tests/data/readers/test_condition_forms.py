"""Conditions in all their forms: parameters and signals by name, units, what is prescribed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calm_pde as cp
from calm_pde.cli import main
from calm_pde.data.storage import DataFile
from calm_pde.errors import CalmError, InputError
from calm_pde.records.description import Field, Prescribed

DRAW = np.random.default_rng(0)
POINTS, FIELDS, TIMES = DRAW.uniform(size=(6, 2)), DRAW.normal(size=(5, 4, 6, 2)).astype(np.float32), np.arange(4) / 2
WALL = DRAW.normal(size=(5, 4))
KINDS = np.array([0, 0, 0, 4, 4, 6])


def made(path: Path, **more: Any) -> DataFile:
    return cp.from_arrays(POINTS, FIELDS, TIMES, out=path, overwrite=True, **more)


def test_all_of_them_come_back(tmp_path: Path) -> None:
    features = DRAW.normal(size=(5, 6, 1)).astype(np.float32)
    file = made(
        tmp_path / "a.h5",
        names=["temperature", "flux"],
        parameters={"conductivity": np.arange(5.0)},
        signals={"wall": WALL},
        features=features,
        feature_names=["thickness"],
        units={"temperature": "K", "conductivity": "W/(m K)", "wall": "K", "thickness": "m"},
        node_type=KINDS,
        node_types={4: "inflow", 6: "wall"},
        prescribed={"temperature": ["wall", 4], "flux": []},
    )
    known = file.description
    assert (known.parameters, known.signals, known.features) == (
        ("conductivity",),
        ("wall",),
        (Field(name="thickness", unit="m"),),
    )
    assert known.fields == (Field(name="temperature", unit="K"), Field(name="flux"))
    assert known.units == {"conductivity": "W/(m K)", "wall": "K"}
    assert known.node_types == {0: "type 0", 4: "inflow", 6: "wall"}
    assert known.prescribed == (Prescribed(field="temperature", node_types=(6, 4)), Prescribed(field="flux"))
    for index in range(5):
        found = file.trajectory(index)
        assert found.parameters == [index]
        np.testing.assert_array_equal(found.signals, WALL[index][:, None])
        np.testing.assert_array_equal(found.signal_times, TIMES)
        np.testing.assert_array_equal(found.features, features[index])


def test_signals_in_all_their_forms(tmp_path: Path) -> None:
    knots = np.array([-0.5, 0.7, 1.5])
    lines = DRAW.normal(size=(5, 3))
    own = [np.linspace(0, 2, 2 + sample) for sample in range(5)]
    rows = [np.sin(places) for places in own]
    wanted = {
        "shared": [(TIMES, WALL[0])] * 5,
        "knots": [(knots, line) for line in lines],
        "one line": [(knots, lines[0])] * 5,
        "own": list(zip(own, rows, strict=True)),
    }
    given = {"shared": WALL[0], "knots": (knots, lines), "one line": (knots, lines[0]), "own": (own, rows)}
    for name, form in given.items():
        file = made(tmp_path / "a.h5", signals={"wall": form})
        for index, (places, line) in enumerate(wanted[name]):
            found = file.trajectory(index)
            np.testing.assert_array_equal(found.signal_times, places)
            np.testing.assert_array_equal(found.signals[:, 0], line)


def test_signals_with_other_knots_are_joined_exactly(tmp_path: Path) -> None:
    """On the knots of both, where both are known, each is what it was between its own."""
    places, line = np.array([-1.0, 0.3, 0.9, 1.5, 7.0]), np.array([4.0, -1.0, 2.0, 2.5, 0.0])
    file = made(tmp_path / "a.h5", signals={"wall": WALL, "inflow": (places, line)})
    found = file.trajectory(3)
    np.testing.assert_allclose(found.signal_times, [0, 0.3, 0.5, 0.9, 1.0, 1.5])
    asked = np.linspace(0, 1.5, 61)
    for column, (knots, values) in enumerate([(TIMES, WALL[3]), (places, line)]):
        ours = np.interp(asked, found.signal_times, found.signals[:, column])
        np.testing.assert_allclose(ours, np.interp(asked, knots, values), atol=1e-12)


def test_features_that_all_samples_share(tmp_path: Path) -> None:
    features = DRAW.normal(size=(6, 2)).astype(np.float32)
    file = made(tmp_path / "a.h5", features=features)
    np.testing.assert_array_equal(file.trajectory(2).features, features)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"signals": {"wall": WALL[:, :3]}}, r"signals\['wall'\]: expected one number per frame, 4 of them, got shape \(3,\)"),
        ({"signals": {"wall": WALL[:4]}}, "one line per sample, 5, got 4"),
        ({"signals": {"wall": ([0.0, 1.0], np.ones((5, 2)))}}, r"times of sample 0: expected knots from the first frame"),
        ({"signals": {"wall": ([0.0, 2.0, 1.0], np.ones((5, 3)))}}, "expected finite, strictly increasing"),
        ({"signals": WALL}, "signals: expected a dictionary"),
        (
            {"units": {"walls": "K"}, "signals": {"wall": WALL}},
            "units: expected names of the data, got 'walls'. Did you mean 'wall'",
        ),
        ({"prescribed": {"u": []}}, "prescribed: expected names of fields, got 'u'"),
        (
            {"prescribed": ["u0"]},
            r"prescribed: expected \{field: node types\}, got list. .* prescribes u0 everywhere",
        ),
        (
            {"prescribed": {"u0": ["wal"]}, "node_type": KINDS, "node_types": {6: "wall"}},
            r"There are 0 \(type 0\), 4 .*6 \(wall\)",
        ),
        ({"prescribed": {"u0": 9}, "node_type": KINDS}, r"prescribed\['u0'\]: expected node types of the data, got 9"),
        (
            {"parameters": {"wall": np.ones(5)}, "signals": {"wall": WALL}},
            "names: expected different names .* got 'wall' twice",
        ),
    ],
)
def test_what_does_not_fit_is_named(more: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        made(tmp_path / "a.h5", **more)


@pytest.mark.parametrize("folder", [False, True])
def test_the_same_from_saved_arrays(folder: bool, tmp_path: Path) -> None:
    knots = np.array([0.0, 0.7, 1.5])
    lines, conductivity = DRAW.normal(size=(5, 3)), np.arange(5.0)
    wanted = made(
        tmp_path / "a.h5",
        names=["temperature", "flux"],
        name="mine",
        parameters={"conductivity": conductivity},
        signals={"inflow": (knots, lines), "wall": WALL},
        units={"temperature": "K", "wall": "K", "conductivity": "W"},
        node_type=KINDS,
        node_types={6: "wall"},
        prescribed={"temperature": ["wall"]},
    )
    arrays: dict[str, Any] = {"points": POINTS, "fields": FIELDS, "times": TIMES, "node_type": KINDS}
    arrays |= {
        "parameters/conductivity": conductivity,
        "signals/inflow": lines,
        "signal_times/inflow": knots,
        "signals/wall": WALL,
    }
    path = tmp_path / ("mine" if folder else "mine.npz")
    if folder:
        for name, values in arrays.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            np.save(path / f"{name}.npy", values)
    else:
        np.savez(path, **arrays)
    words = ["--names", "temperature", "flux", "--units", "K", "", "--condition-units", "wall", "K", "conductivity", "W"]
    words += ["--node-types", "6", "wall", "--prescribed", "temperature=wall"]
    main(["convert", "arrays", str(path), "--out", str(tmp_path / "b.h5"), *words])
    assert DataFile(tmp_path / "b.h5").fingerprint == wanted.fingerprint


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"signal_times/wal": TIMES, "signals/wall": WALL},
            "array signal_times/wal: belongs to no signal. Did you mean 'wall'",
        ),
        ({"parameter/k": np.ones(5)}, "array parameter/k: is not known"),
        ({"parameters/k": np.ones(5), "parameters": np.ones((5, 1))}, "stands beside parameters with names"),
    ],
)
def test_saved_arrays_that_fit_nowhere_are_named(arrays: dict, message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", points=POINTS, fields=FIELDS, **arrays)
    with pytest.raises(CalmError, match=message):
        cp.convert("arrays", tmp_path / "b.h5", path=tmp_path / "mine.npz")
