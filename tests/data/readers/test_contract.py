"""What every reader promises: foreign, truncated and damaged files end in an error that names them; one sample in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import tyro
from scipy.io import savemat

from calm_pde.data.readers import READERS
from calm_pde.data.readers.base import Reader
from calm_pde.errors import CalmError, FileError
from tests.data.readers.files import (
    random,
    write_airfoils,
    write_burgers,
    write_elasticity,
    write_flow,
    write_mat73,
    write_meshgraphnets,
    write_well,
)


class Kind(NamedTuple):
    write: Callable[[Path], object]
    files: tuple[str, ...]
    reader: Callable[[Path], Reader]


def kind(name: str, write: Callable[[Path], object], files: tuple[str, ...], folder: bool = False, **options) -> Kind:
    return Kind(write, files, lambda path: READERS[name](path=path if folder else path / files[0], **options))


ELSEWHERE = ("arrays", "vtk", "openfoam")  # test_arrays.py and simulations/
U = random(0, 6, 4, 4, 5)
KINDS = {
    "burgers": kind("pdebench", lambda at: write_burgers(at / "b.hdf5", count=4), ("b.hdf5",)),
    "flow": kind("pdebench", lambda at: write_flow(at / "f.hdf5", (4, 4), count=3), ("f.hdf5",)),
    "mat v5": kind("fno", lambda at: savemat(at / "u.mat", {"u": U}), ("u.mat",), test=2),
    "mat v5 packed": kind("fno", lambda at: savemat(at / "u.mat", {"u": U}, do_compression=True), ("u.mat",), test=2),
    "mat v7.3": kind("fno", lambda at: write_mat73(at / "u.mat", {"u": U}), ("u.mat",), test=2),
    "vorticity npy": kind("fno", lambda at: np.save(at / "u.npy", U.T.copy()), ("u.npy",), test=2),
    "cylinder": kind("meshgraphnets", write_meshgraphnets, ("train.tfrecord", "test.tfrecord", "meta.json"), folder=True),
    "steady": kind("steady_airfoil", write_airfoils, ("NACA_Cylinder_X.npy", "NACA_Cylinder_Q.npy"), True, train=5, test=1),
    "elasticity": kind(
        "elasticity", write_elasticity, ("Random_UnitCell_XY_10.npy", "Random_UnitCell_sigma_10.npy"), True, train=5, test=1
    ),
    "well": kind("the_well", lambda at: write_well(at / "w.hdf5", count=2), ("w.hdf5",)),
}
EVERY_FILE = [(name, file) for name, kind in KINDS.items() for file in kind.files]
FOREIGN = {
    "image": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256)) * 4,
    "text": b"not the data you are looking for\n" * 40,
    "page": b"<!DOCTYPE html>\n<html><body><h1>404 Not Found</h1></body></html>\n" * 20,
    "pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n",
    "zip": b"PK\x03\x04" + bytes(600),
    "zeros": bytes(2000),
    "empty": b"",
}


def read(reader: Reader) -> list:
    return list(reader.source().trajectories)


def test_every_kind_is_covered():
    covered = {type(kind.reader(Path())).__name__ for kind in KINDS.values()}
    assert covered == {reader.__name__ for name, reader in READERS.items() if name not in ELSEWHERE}


@pytest.mark.parametrize("name", KINDS)
def test_a_good_file_is_read_twice_alike(tmp_path, name):
    KINDS[name].write(tmp_path)
    one, two = (read(KINDS[name].reader(tmp_path)) for _ in range(2))
    assert len(one) == KINDS[name].reader(tmp_path).source().count > 0
    assert all(np.array_equal(a.fields, b.fields) and a.split == b.split for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("content", FOREIGN)
@pytest.mark.parametrize(("name", "file"), EVERY_FILE)
def test_foreign_files_are_named(tmp_path, name, file, content):
    KINDS[name].write(tmp_path)
    (tmp_path / file).write_bytes(FOREIGN[content])
    with pytest.raises(FileError, match=file):
        KINDS[name].reader(tmp_path).source()


@pytest.mark.parametrize(("name", "file"), EVERY_FILE)
def test_truncated_files_are_named(tmp_path, name, file):
    """Cut at 40 places all over the file, and just before its end."""
    KINDS[name].write(tmp_path)
    path = tmp_path / file
    whole = path.read_bytes()
    for length in (*np.linspace(1, len(whole) - 9, 40).astype(int), *range(len(whole) - 8, len(whole))):
        path.write_bytes(whole[:length])
        with pytest.raises(FileError, match=file):
            read(KINDS[name].reader(tmp_path))


@pytest.mark.parametrize(("name", "file"), EVERY_FILE)
def test_damaged_files_never_end_in_a_foreign_error(tmp_path, name, file):
    """What has no checksum may change unnoticed; whatever is noticed is an error of ours."""
    KINDS[name].write(tmp_path)
    path = tmp_path / file
    whole = bytearray(path.read_bytes())
    places = {*range(0, min(len(whole), 160), 3), *np.linspace(160, len(whole) - 1, 60).astype(int)}
    for place in sorted(place for place in places if place < len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        with suppress(CalmError):
            read(KINDS[name].reader(tmp_path))


@pytest.mark.parametrize(("name", "file"), EVERY_FILE)
def test_folders_for_files_and_missing_ones(tmp_path, name, file):
    KINDS[name].write(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(FileError, match=f"{file}: there is no such file"):
        KINDS[name].reader(tmp_path).source()
    (tmp_path / file).mkdir()
    with pytest.raises(FileError, match=file):
        KINDS[name].reader(tmp_path).source()


@pytest.mark.parametrize(
    ("write", "reader"),
    [
        (lambda at: write_burgers(at / "b.hdf5", 40, 50, 1024), lambda at: READERS["pdebench"](path=at / "b.hdf5")),
        (lambda at: np.save(at / "u.npy", random(0, 50, 32, 32, 40)), lambda at: READERS["fno"](path=at / "u.npy", test=4)),
        (lambda at: write_airfoils(at, 40, (200, 20)), lambda at: READERS["steady_airfoil"](path=at, train=30, test=10)),
        (lambda at: write_well(at / "w.hdf5", 0, 40, 25, (32, 16)), lambda at: READERS["the_well"](path=at / "w.hdf5")),
    ],
    ids=["pdebench", "fno", "steady_airfoil", "the_well"],
)
def test_one_sample_in_memory_at_a_time(tmp_path, monkeypatch, write, reader):
    """All files hold 40 samples; the peak stays below five of them. (The vorticity comes in blocks, of two here.)"""
    monkeypatch.setattr("calm_pde.data.readers.fno._BLOCK_BYTES", 2 * 50 * 32 * 32 * 4)
    write(tmp_path)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    source = reader(tmp_path).source()
    tracemalloc.start()
    try:
        assert sum(1 for _ in source.trajectories) == source.count == 40
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * size / 40


@pytest.mark.parametrize("name", READERS)
def test_options_come_from_the_command_line(name):
    reader = tyro.cli(READERS[name], args=["somewhere"])
    assert reader.path == Path("somewhere")
