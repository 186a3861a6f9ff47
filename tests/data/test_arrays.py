"""A user's own arrays become a data file, from Python and from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.cli import main
from calm_pde.data.storage import DataFile
from calm_pde.errors import CalmError, FileError, InputError

DRAW = np.random.default_rng(0)
POINTS = DRAW.uniform(size=(30, 2))
FIELDS = DRAW.normal(size=(20, 4, 30, 2)).astype(np.float32)


def test_arrays_come_back_exactly(tmp_path: Path) -> None:
    times = np.array([0.0, 0.1, 0.2, 0.3])
    file = cp.from_arrays(
        POINTS, FIELDS, times, out=tmp_path / "a.h5", names=["u", "p"], units=["m/s", "Pa"], parameters=np.arange(20.0)[:, None]
    )
    assert [field.unit for field in file.description.fields] == ["m/s", "Pa"]
    np.testing.assert_array_equal(file.description.points, POINTS)
    np.testing.assert_array_equal(file.times, times)
    for index in range(20):
        np.testing.assert_array_equal(file.trajectory(index).fields, FIELDS[index])
        assert file.trajectory(index).parameters == [index]
    np.testing.assert_allclose(file.description.box.lower, POINTS.min(axis=0))


def test_double_precision_is_kept_and_integers_become_single(tmp_path: Path) -> None:
    double = cp.from_arrays(POINTS, FIELDS.astype(np.float64), out=tmp_path / "a.h5")
    assert double.trajectory(0).fields.dtype == np.float64
    whole = cp.from_arrays(POINTS, np.ones((10, 4, 30, 1), dtype=np.int64), out=tmp_path / "b.h5")
    assert whole.trajectory(0).fields.dtype == np.float32
    assert whole.times.tolist() == [0, 1, 2, 3]


def test_a_mesh_per_sample(tmp_path: Path) -> None:
    sizes = [12, 20, 15]
    clouds = [DRAW.uniform(size=(size, 3)) for size in sizes]
    fields = [DRAW.normal(size=(2, size, 1)) for size in sizes]
    kinds = [DRAW.integers(0, 2, size=size) for size in sizes]
    file = cp.from_arrays(clouds, fields, out=tmp_path / "a.h5", node_type=kinds, split=["train", "validation", "test"])
    for index, cloud in enumerate(clouds):
        found = file.trajectory(index)
        np.testing.assert_array_equal(found.points, cloud)
        np.testing.assert_array_equal(found.fields, fields[index])
        np.testing.assert_array_equal(found.node_type, kinds[index])
    assert file.header.node_types == {0: "type 0", 1: "type 1"}


def test_the_period_of_a_grid_is_one_spacing_more_than_its_extent(tmp_path: Path) -> None:
    axis = np.arange(8) / 4 - 1  # [−1, 1) in steps of ¼
    file = cp.from_arrays(axis[:, None], np.zeros((10, 2, 8, 1)), out=tmp_path / "a.h5", periodic=True)
    assert file.header.box == cp.Box((-1.0,), (1.0,), True)
    with pytest.raises(InputError, match="box: expected the length of one period"):
        cp.from_arrays(POINTS, FIELDS, out=tmp_path / "b.h5", periodic=True)


LINE = np.linspace(0, 1, 30)


@pytest.mark.parametrize(
    "points",
    [LINE, LINE[:, None], torch.from_numpy(LINE), LINE.tolist(), LINE[:, None].tolist(), [LINE] * 20, [LINE[:, None]] * 20],
)
def test_points_on_a_line_in_all_their_forms(points: Any, tmp_path: Path) -> None:
    file = cp.from_arrays(points, FIELDS, out=tmp_path / "a.h5")
    shared = file.description.points
    np.testing.assert_array_equal(file.trajectory(7).points if shared is None else shared, LINE[:, None])
    assert file.header.box == cp.Box((0.0,), (1.0,))


def test_rows_that_could_be_points_or_samples_are_not_guessed_at(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a list of 3 rows that could be either"):
        cp.from_arrays([np.arange(3.0)] * 3, np.zeros((3, 2, 3, 1)), out=tmp_path / "a.h5")


def test_tensors_are_as_good_as_arrays(tmp_path: Path) -> None:
    given = {"points": POINTS, "fields": FIELDS, "times": np.arange(4.0), "parameters": np.ones((20, 1))}
    given["node_type"] = np.arange(30) % 2
    wanted = cp.from_arrays(**given, out=tmp_path / "a.h5")
    tensors = {name: torch.from_numpy(values) for name, values in given.items()}
    tensors["fields"].requires_grad_()
    assert cp.from_arrays(**tensors, out=tmp_path / "b.h5").fingerprint == wanted.fingerprint
    lists = given | {"fields": list(tensors["fields"]), "points": POINTS.tolist(), "parameters": np.ones(20)}
    assert cp.from_arrays(**lists, out=tmp_path / "c.h5").fingerprint == wanted.fingerprint


@pytest.mark.parametrize(
    ("box", "more"),
    [
        (((0, -1), (1, 2), (True, False)), {}),
        (((0.0, -1.0), (1.0, 2.0)), {"periodic": (True, False)}),
        (np.array([[0, -1], [1, 2]]), {"periodic": (True, False)}),
    ],
)
def test_a_box_is_two_corners_too(box: Any, more: dict, tmp_path: Path) -> None:
    file = cp.from_arrays(POINTS, FIELDS, out=tmp_path / "a.h5", box=box, **more)
    assert file.header.box == cp.Box((0.0, -1.0), (1.0, 2.0), (True, False))


def test_a_box_in_one_dimension_is_two_numbers_too(tmp_path: Path) -> None:
    for place, box in enumerate([(0, 2), ((0.0,), (2.0,))]):
        assert cp.from_arrays(LINE, FIELDS, out=tmp_path / f"{place}.h5", box=box).header.box == cp.Box((0.0,), (2.0,))


@pytest.mark.parametrize("none", [{}, np.zeros((20, 0)), None], ids=["dictionary", "array", "nothing"])
def test_no_parameters_are_none(none: object, tmp_path: Path) -> None:
    file = cp.from_arrays(POINTS, FIELDS, out=tmp_path / "a.h5", parameters=none)
    assert file.header.parameters == ()
    assert file.trajectory(3).parameters is None
    bare = cp.from_arrays(POINTS, FIELDS, out=tmp_path / "b.h5")
    assert file.fingerprint == bare.fingerprint
    with pytest.raises(InputError, match="parameter_names: expected"):
        cp.from_arrays(POINTS, FIELDS, out=tmp_path / "c.h5", parameters=np.zeros((20, 0)), parameter_names=["nu"])


def test_parameters_by_name(tmp_path: Path) -> None:
    file = cp.from_arrays(
        POINTS, FIELDS, out=tmp_path / "a.h5", parameters={"nu": np.arange(20.0), "mach": torch.full((20,), 0.5)}
    )
    assert file.header.parameters == ("nu", "mach")
    assert file.trajectory(3).parameters.tolist() == [3.0, 0.5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"fields": FIELDS[0]},
            r"fields: expected \(sample, time, point, channel\), got shape \(4, 30, 2\)\. A single",
        ),
        ({"fields": FIELDS[:, :, :7]}, r"trajectory 0, fields: expected shape \(4, 30, 2\), got shape \(4, 7, 2\)"),
        ({"times": [0, 1]}, "times: expected 4 finite, strictly increasing"),
        ({"times": [0, 2, 1, 3]}, "times: expected 4 finite, strictly increasing"),
        ({"names": ["u"]}, "names: expected 2 different names"),
        ({"split": ["train"] * 3}, "split: expected 20 of train, validation, test, got 3 entries"),
        ({"split": ["valid"] * 20}, "split: .* got 'valid'"),
        ({"periodic": (True,)}, "periodic: expected True, False or 2"),
        ({"points": [POINTS]}, "points: expected one array per sample, 20, got 1"),
        ({"points": None}, "points: expected numbers, got NoneType"),
        ({"points": "here"}, "points: expected numbers, got an array of <U4"),
        ({"points": np.zeros((30, 4))}, r"points: expected \(point, dim\) with 1 to 3 axes of space, got shape \(30, 4\)"),
        ({"points": [POINTS] * 19 + [POINTS[:, :1]]}, "points: expected 2 axes in all samples, got 1 in sample 19"),
        ({"points": [POINTS] * 19 + [POINTS[None]]}, r"points\[19\]: expected \(point, dim\)"),
        ({"points": [np.zeros(4)] * 20}, "points: .* a list of 20 rows that is neither"),
        ({"fields": None}, "fields: expected an array, or a list with one per sample, got NoneType"),
        ({"fields": {"u": FIELDS}}, "fields: expected an array, or a list with one per sample, got dict"),
        ({"fields": [[1.0, [2.0]]]}, r"fields\[0\]: expected an array of numbers"),
        ({"times": 1.0}, "times: expected 4 finite, strictly increasing"),
        ({"times": ["a", "b", "c", "d"]}, "times: expected numbers"),
        ({"box": ((0.0,), (1.0,))}, r"box: expected \(lower, upper\) with 2 numbers each, .* got 1 axes"),
        ({"box": (0.0, 1.0)}, r"box: expected \(lower, upper\) with 2 numbers each, .* got \(0\.0, 1\.0\)"),
        ({"box": ((0, 1), (0, 1))}, "Box: expected lower < upper on every axis"),
        ({"box": cp.Box((0,), (1,))}, r"box: expected \(lower, upper\) with 2 numbers each, .* got 1 axes"),
        ({"box": 3.0}, r"box: expected \(lower, upper\) .* got 3\.0"),
        ({"parameters": np.zeros((19, 2))}, r"parameters: expected \(sample, parameter\) with 20 samples, got shape \(19, 2\)"),
        ({"parameters": {"nu": np.zeros((20, 2))}}, r"parameters\['nu'\]: expected \(20,\), got shape \(20, 2\)"),
        ({"parameters": {"nu": np.zeros(20)}, "parameter_names": ["nu"]}, "parameter_names: expected none beside"),
        ({"features": np.zeros((20, 30))}, r"features: expected \(sample, point, feature\), got 1 axes per sample"),
        ({"points": [POINTS] * 20, "cells": np.zeros((7, 3), int)}, "cells: expected one array per sample, 20, got 7"),
    ],
)
def test_wrong_arrays_are_named(change: dict, message: str, tmp_path: Path) -> None:
    given = {"points": POINTS, "fields": FIELDS} | change
    with pytest.raises(InputError, match=message):
        cp.from_arrays(**given, out=tmp_path / "a.h5")
    assert not list(tmp_path.iterdir())


WHOLE = {
    "points": POINTS,
    "fields": FIELDS,
    "times": np.arange(4.0),
    "cells": np.zeros((7, 3), int),
    "node_type": np.zeros(30, int),
    "features": np.zeros((20, 30, 2)),
    "parameters": np.zeros((20, 1)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_masks_and_imaginary_parts_are_refused(name: str, tmp_path: Path) -> None:
    given, values = {"points": POINTS, "fields": FIELDS}, WHOLE[name]
    hidden = np.ma.masked_array(values, mask=np.arange(values.size).reshape(values.shape) == values.size - 1)
    with pytest.raises(InputError, match=f"{name}: expected an array without a mask, got 1 masked entries"):
        cp.from_arrays(**(given | {name: hidden}), out=tmp_path / "a.h5")
    for unreal in (values + 1j, torch.from_numpy(values + 1j), list(values + 1j)):
        with pytest.raises(InputError, match=rf"{name}\S*: expected real numbers, got (torch\.)?complex"):
            cp.from_arrays(**(given | {name: unreal}), out=tmp_path / "a.h5")
    assert not list(tmp_path.iterdir())


def test_a_mask_in_any_sample_or_named_parameter_is_found(tmp_path: Path) -> None:
    hidden = np.ma.masked_array(FIELDS[3], mask=FIELDS[3] > 1)
    with pytest.raises(InputError, match=r"fields\[3\]: expected an array without a mask"):
        cp.from_arrays(POINTS, [*FIELDS[:3], hidden, *FIELDS[4:]], out=tmp_path / "a.h5")
    with pytest.raises(InputError, match=r"parameters\['nu'\]: expected real numbers"):
        cp.from_arrays(POINTS, FIELDS, parameters={"nu": np.full(20, 1j)}, out=tmp_path / "a.h5")
    empty = np.ma.masked_array(FIELDS)
    np.testing.assert_array_equal(cp.from_arrays(POINTS, empty, out=tmp_path / "a.h5").trajectory(0).fields, FIELDS[0])


def test_npz_and_folder_of_npy_by_command(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", points=POINTS, fields=FIELDS, times=np.arange(4) / 2)
    folder = tmp_path / "arrays"
    folder.mkdir()
    for name, values in {"points": POINTS, "fields": FIELDS, "times": np.arange(4) / 2}.items():
        np.save(folder / f"{name}.npy", values)
    main(["convert", "arrays", str(tmp_path / "a.npz"), "--out", str(tmp_path / "a.h5"), "--names", "u", "p"])
    main(["convert", "arrays", str(folder), "--out", str(tmp_path / "b.h5"), "--names", "u", "p"])
    first, second = DataFile(tmp_path / "a.h5"), DataFile(tmp_path / "b.h5")
    assert (first.digests == second.digests).all()
    assert [field.name for field in first.header.fields] == ["u", "p"]


def test_wrong_files_are_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    def message(path: Path) -> str:
        with pytest.raises(SystemExit):
            main(["convert", "arrays", str(path), "--out", str(tmp_path / "x.h5")])
        return capsys.readouterr().err

    assert "there is no such file" in message(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    assert "not a readable NumPy file" in message(tmp_path / "text.npz")
    np.save(tmp_path / "one.npy", FIELDS)
    assert "a single array" in message(tmp_path / "one.npy")
    np.savez(tmp_path / "less.npz", fields=FIELDS)
    assert "array points: is missing. There have to be points (point, dim) and fields" in message(tmp_path / "less.npz")
    np.savez(tmp_path / "more.npz", points=POINTS, field=FIELDS)
    assert "array field: is not known. Did you mean 'fields'? There have to be points" in message(tmp_path / "more.npz")
    np.savez(tmp_path / "objects.npz", points=POINTS, fields=np.array([{}], dtype=object))
    assert "array fields: holds objects instead of numbers" in message(tmp_path / "objects.npz")
    raw = (tmp_path / "more.npz").read_bytes()
    (tmp_path / "half.npz").write_bytes(raw[: len(raw) // 2])
    assert "not a readable NumPy file" in message(tmp_path / "half.npz")
    assert not (tmp_path / "x.h5").exists()


def test_file_errors_are_calm_errors() -> None:
    assert issubclass(FileError, CalmError)
