"""The vorticity files: one field from four formats, the paper's frames and split, times and grid."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from scipy.io import savemat

from calm_pde.data.readers import FNOVorticity, fno
from calm_pde.errors import FileError, InputError
from tests.data.readers.files import random, write_mat73

FORMATS = ("v5", "v5 compressed", "v7.3", "v7.3 compressed", "npy", "npy Fortran")


def write(folder, kind, frames=4, count=12, dtype="float32"):
    """Axes of different lengths, so that no two can be swapped unnoticed; a cube of them is in the files."""
    u = random(frames, count, 3, 5, frames, dtype=dtype)
    others = {"u": u, "a": u[..., 0], "t": np.arange(1.0, frames + 1)[None]}
    path = folder / ("u.npy" if "npy" in kind else "u.mat")
    if kind.startswith("v5"):
        savemat(path, others, do_compression="compressed" in kind)
    elif kind.startswith("v7.3"):
        write_mat73(path, others, **({"chunks": True, "compression": 3} if "compressed" in kind else {}))
    else:
        np.save(path, u.T if "Fortran" in kind else np.ascontiguousarray(u.T))
    return path, u


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("block", [1, 700, 10**6])
def test_every_format_gives_the_same_field(tmp_path, monkeypatch, kind, block):
    monkeypatch.setattr(fno, "_BLOCK_BYTES", block)
    path, u = write(tmp_path, kind)
    source = FNOVorticity(path=path, test=2).source()
    described = source.description
    assert [field.name for field in described.fields] == ["vorticity"]
    assert (described.box.lower, described.box.upper, described.box.periodic) == ((0, 0), (1, 1), (True, True))
    assert described.grid_shape == (3, 5)
    np.testing.assert_array_equal(described.points, [(i / 3, j / 5) for i in range(3) for j in range(5)])
    np.testing.assert_array_equal(described.times, [1, 2, 3, 4])
    found = list(source.trajectories)
    assert source.count == len(found) == 12
    assert [trajectory.split for trajectory in found] == ["train"] * 9 + ["validation"] + ["test"] * 2
    for trajectory, sample in zip(found, u, strict=True):
        np.testing.assert_array_equal(trajectory.fields, np.moveaxis(sample, -1, 0).reshape(4, 15, 1))
        assert trajectory.fields.dtype == np.float32


@pytest.mark.parametrize(("frames", "times"), [(30, (11, 30)), (20, (1, 20)), (50, (1, 50))])
def test_the_papers_frames(tmp_path, frames, times):
    path, u = write(tmp_path, "npy", frames=frames)
    source = FNOVorticity(path=path, test=1).source()
    np.testing.assert_array_equal(source.description.times, np.arange(times[0], times[1] + 1))
    first = next(iter(source.trajectories)).fields
    np.testing.assert_array_equal(first[:, 0, 0], u[0, 0, 0, times[0] - 1 : times[1]])


def test_options(tmp_path):
    path, u = write(tmp_path, "v7.3", frames=30, dtype="float64")
    source = FNOVorticity(path=path, test=4, samples=2, first_frame=3, frames=5).source()
    np.testing.assert_array_equal(source.description.times, [4, 5, 6, 7, 8])
    found = list(source.trajectories)
    assert [trajectory.split for trajectory in found] == ["train", "train", "validation", "test", "test"]
    for trajectory, index in zip(found, (0, 1, 7, 8, 9), strict=True):
        np.testing.assert_array_equal(trajectory.fields[..., 0], u[index].reshape(15, 30).T[3:8])
    assert found[0].fields.dtype == np.float64


@pytest.mark.parametrize("option", [{}, {"test": 12}, {"first_frame": 4, "test": 1}, {"frames": 5, "test": 1}])
def test_options_that_do_not_fit(tmp_path, option):
    path, _ = write(tmp_path, "npy")
    with pytest.raises(InputError, match=r"u\.npy"):
        FNOVorticity(path=path, **option).source()


@pytest.mark.parametrize("kind", ["v5", "v7.3", "npy"])
@pytest.mark.parametrize("values", [random(0, 3, 4, 5), np.array([["a", "b"]]), np.zeros((0, 2, 3, 4)), None])
def test_files_that_do_not_fit(tmp_path, kind, values):
    path = tmp_path / ("u.npy" if kind == "npy" else "u.mat")
    if kind == "npy":
        np.save(path, np.array("text") if values is None else values)
    elif kind == "v5":
        savemat(path, {"other": [1.0]} if values is None else {"u": values})
    else:
        write_mat73(path, {"u": np.zeros((2, 2)) if values is None or values.dtype.kind == "U" else values})
        if values is not None and values.dtype.kind == "U":
            with h5py.File(path, "r+") as file:
                del file["u"]
                file["u"] = "text"
    with pytest.raises(FileError, match=r"u\.(npy|mat).*(expected|there is none|cannot be read)"):
        FNOVorticity(path=path).source()


def test_pickled_objects_are_refused(tmp_path):
    np.save(tmp_path / "u.npy", np.array([{"code": print}], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match=r"u\.npy: cannot be read .*object"):
        FNOVorticity(path=tmp_path / "u.npy").source()
