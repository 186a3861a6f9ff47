"""Samples of different size come in as a folder of .npz files, or as one with offsets; objects are refused with what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calm_pde.cli.command import main
from calm_pde.data.convert import convert
from calm_pde.data.readers.arrays import Arrays
from calm_pde.data.storage import DataFile
from calm_pde.errors import CalmError, FileError

COUNT, TIMES = 5, np.array([0.0, 0.5, 2.0])


def samples(seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Clouds of 6 to 15 points, with triangles, node types, a parameter, and a signal with two to four knots."""
    draw, found = np.random.default_rng(seed), []
    for index in range(COUNT):
        count = int(draw.integers(6, 16))
        knots = np.linspace(0, 2, 2 + index % 3)
        found.append(
            {
                "points": draw.uniform(size=(count, 2)),
                "fields": draw.normal(size=(3, count, 2)),
                "times": TIMES,
                "cells": draw.integers(0, count, (count - 3, 3)),
                "node_type": draw.integers(0, 2, count),
                "features": draw.normal(size=(count, 1)),
                "parameters/power": np.float64(index + 1),
                "signals/wall": knots * index,
                "signal_times": knots,
            }
        )
    return found


def write_folder(folder: Path, found: list[dict[str, np.ndarray]]) -> None:
    folder.mkdir(exist_ok=True)
    for index, sample in enumerate(found):
        np.savez(folder / f"run_{8 + index}.npz", **sample)  # run_10 comes after run_9


def with_offsets(found: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    joined = {name: np.concatenate([one[name] for one in found]) for name in ("points", "cells", "node_type", "features")}
    for kind in ("signals/wall", "signal_times"):
        joined[kind] = np.concatenate([one[kind] for one in found])
    starts = {kind: np.cumsum([0] + [len(one[name]) for one in found]) for kind, name in OFFSETS.items()}
    power = np.array([one["parameters/power"] for one in found])
    fields = np.concatenate([one["fields"] for one in found], axis=1)
    return joined | starts | {"fields": fields, "times": TIMES, "parameters/power": power}


OFFSETS = {"point_offsets": "points", "cell_offsets": "cells", "signal_offsets": "signal_times"}


def check(file: DataFile, found: list[dict[str, np.ndarray]]) -> None:
    assert len(file) == COUNT
    assert file.description.parameters == ("power",)
    assert file.description.signals == ("wall",)
    np.testing.assert_array_equal(file.times, TIMES)
    for index, sample in enumerate(found):
        trajectory = file.trajectory(index)
        for name in ("points", "fields", "cells", "node_type"):
            np.testing.assert_array_equal(getattr(trajectory, name), sample[name])
        np.testing.assert_allclose(trajectory.features, sample["features"])
        np.testing.assert_array_equal(trajectory.parameters, [index + 1])
        np.testing.assert_array_equal(trajectory.signals, sample["signals/wall"][:, None])
        np.testing.assert_array_equal(trajectory.signal_times, sample["signal_times"])


def test_a_folder_and_offsets_hold_the_same(tmp_path: Path) -> None:
    found = samples()
    write_folder(tmp_path / "runs", found)
    np.savez(tmp_path / "all.npz", **with_offsets(found))
    main(["convert", "arrays", str(tmp_path / "runs"), "--out", str(tmp_path / "a.h5"), "--names", "u", "v"])
    main(["convert", "arrays", str(tmp_path / "all.npz"), "--out", str(tmp_path / "b.h5"), "--names", "u", "v"])
    with DataFile(tmp_path / "a.h5") as one, DataFile(tmp_path / "b.h5") as other:
        check(one, found)
        check(other, found)
        assert (one.digests == other.digests).all()


def test_one_mesh_for_all_is_stored_once(tmp_path: Path) -> None:
    found = samples()
    same = {name: found[0][name] for name in ("points", "cells", "node_type", "fields", "features")}
    write_folder(tmp_path / "runs", [one | same for one in found])
    file = convert(Arrays(path=tmp_path / "runs"), tmp_path / "a.h5")
    assert file.description.points is not None
    np.testing.assert_array_equal(file.description.points, found[0]["points"])


def message(path: Path, tmp_path: Path) -> str:
    with pytest.raises(CalmError) as caught:
        convert(Arrays(path=path), tmp_path / "x.h5", overwrite=True)
    return str(caught.value)


def test_objects_are_refused_with_what_to_do(tmp_path: Path) -> None:
    """As they come from np.savez(points=[a, b, c]) of arrays with different lengths."""
    clouds = np.empty(2, dtype=object)
    clouds[:] = [np.zeros((3, 2)), np.zeros((4, 2))]
    np.savez(tmp_path / "objects.npz", points=clouds, fields=clouds)
    np.save(tmp_path / "objects.npy", clouds)
    for name in ("objects.npz", "objects.npy"):
        said = message(tmp_path / name, tmp_path)
        assert name in said
        for words in ("holds objects instead of numbers", "np.savez('case/a.npz'", "point_offsets=np.cumsum"):
            assert words in said
    (tmp_path / "runs").mkdir()
    np.savez(tmp_path / "runs" / "a.npz", points=clouds, fields=clouds, times=TIMES)
    assert "a.npz, array points: holds objects" in message(tmp_path / "runs", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fields": None}, "run_10.npz, array fields: is not there, and run_8.npz has it"),
        ({"more": np.zeros(3)}, "run_10.npz, array more: is not known"),
        ({"times": TIMES + 1}, "run_10.npz, array times: is another one than in run_8.npz"),
        ({"fields": np.zeros((3, 99, 2))}, "run_10.npz, array fields: expected (time, point, channel) with"),
        ({"parameters/power": np.zeros(2)}, "run_10.npz, array parameters/power: expected one number, got shape (2,)"),
    ],
)
def test_the_wrong_file_of_a_folder_is_named(tmp_path: Path, change: dict, words: str) -> None:
    found = samples()
    found[2] = {name: value for name, value in (found[2] | change).items() if value is not None}
    write_folder(tmp_path / "runs", found)
    assert words in message(tmp_path / "runs", tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"point_offsets": np.array([0, 5])}, "the offsets end at 5"),
        ({"point_offsets": np.array([0.0, 5.0])}, "expected whole numbers (sample + 1,) from 0"),
        ({"cell_offsets": None}, "array cell_offsets: is missing beside cells"),
        ({"fields": np.zeros((3, 5))}, "expected (time, points of all samples, channel)"),
        ({"parameters/power": np.zeros(4)}, "has 4 rows for 5 samples"),
    ],
)
def test_wrong_offsets_are_named(tmp_path: Path, change: dict, words: str) -> None:
    arrays = {name: value for name, value in (with_offsets(samples()) | change).items() if value is not None}
    np.savez(tmp_path / "all.npz", **arrays)
    said = message(tmp_path / "all.npz", tmp_path)
    assert words in said
    assert "all.npz" in said


def test_damage_to_a_file_is_seen_by_its_checksum(tmp_path: Path) -> None:
    """A zip archive has one for every array, so that no flipped bit changes a number unseen."""
    write_folder(tmp_path / "runs", samples())
    path = tmp_path / "runs" / "run_9.npz"
    whole, wanted = path.read_bytes(), [one.fields for one in Arrays(path=tmp_path / "runs").source().trajectories]
    for place in np.random.default_rng(0).integers(len(whole), size=60):
        damaged = bytearray(whole)
        damaged[place] ^= 16
        path.write_bytes(damaged)
        found, said = wanted, "run_9.npz"
        try:
            found = [one.fields for one in Arrays(path=tmp_path / "runs").source().trajectories]
        except FileError as error:
            said = str(error)
        assert "run_9.npz" in said or "run_8.npz" in said  # the other where the name of an array was hit
        assert all(np.array_equal(one, other) for one, other in zip(found, wanted, strict=True))
