"""PDEBench: exact arrays of every layout, the paper's strides and split, boxes from coordinates, and files that do not fit."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from calm_pde.data.readers import PDEBench
from calm_pde.errors import FileError, InputError
from tests.data.readers.files import cell_coordinates, random, write_burgers, write_flow
from tests.files.links import WAYS_OUT, lead_out


def test_burgers_as_in_the_paper(tmp_path):
    path = tmp_path / "1D_Burgers_Sols_Nu0.001.hdf5"
    values = write_burgers(path)
    source = PDEBench(path=path).source()
    described = source.description
    assert described.name == "1D_Burgers_Sols_Nu0.001"
    assert [field.name for field in described.fields] == ["u"]
    assert (described.box.lower, described.box.upper, described.box.periodic) == ((0,), (1,), (True,))
    np.testing.assert_array_equal(described.times, (np.arange(12) * 0.01).astype(np.float32)[[0, 5, 10]])
    np.testing.assert_array_equal(described.points, cell_coordinates(16)[:, None])
    assert described.provenance["attributes"] == {"Nu": 0.001}
    found = list(source.trajectories)
    assert source.count == len(found) == 20
    assert [trajectory.split for trajectory in found] == ["test"] * 2 + ["train"] * 16 + ["validation"] * 2
    for trajectory, sample in zip(found, values, strict=True):
        np.testing.assert_array_equal(trajectory.fields, sample[::5, :, None])
        assert trajectory.fields.dtype == np.float32


@pytest.mark.parametrize(("frames", "kept"), [(201, 41), (200, 40), (1, 1)])
def test_any_number_of_frames(tmp_path, frames, kept):
    write_burgers(tmp_path / "b.hdf5", frames=frames)
    source = PDEBench(path=tmp_path / "b.hdf5").source()
    assert len(source.description.times) == kept == len(next(iter(source.trajectories)).fields)


@pytest.mark.parametrize(("lower", "length"), [(0.0, 1.0), (-1.0, 2.0), (0.0, 2 * np.pi), (3.0, 0.125)])
@pytest.mark.parametrize("points", [16, 1024])
def test_the_box_is_read_from_the_coordinates(tmp_path, lower, length, points):
    """The files before and after PDEBench's correction differ in it; the unit coordinates are cell centers in both."""
    write_burgers(tmp_path / "b.hdf5", points=points, lower=lower, length=length)
    described = PDEBench(path=tmp_path / "b.hdf5").source().description
    np.testing.assert_allclose(described.box.lower, lower, atol=1e-6)
    np.testing.assert_allclose(described.box.upper, lower + length, atol=1e-6)
    centers = (np.arange(points) + 0.5)[:, None] / points
    np.testing.assert_allclose(described.box.to_unit(described.points), centers, atol=2e-6)
    if length != 2 * np.pi:
        assert (described.box.lower, described.box.upper) == ((lower,), (lower + length,))


@pytest.mark.parametrize("shape", [(8,), (4, 6), (4, 6, 8)])
@pytest.mark.parametrize("stride", [1, 2])
def test_flow(tmp_path, shape, stride):
    values = write_flow(tmp_path / "flow.hdf5", shape)
    source = PDEBench(path=tmp_path / "flow.hdf5", space_stride=stride, frame_stride=2).source()
    described = source.description
    names = ["density", "pressure", "velocity_x", "velocity_y", "velocity_z"][: 2 + len(shape)]
    assert [field.name for field in described.fields] == names
    assert described.grid_shape == tuple(length // stride for length in shape)
    assert described.box.upper == (1,) * len(shape)
    assert described.conserved == (("density",) if stride == 1 else ())
    axes = np.meshgrid(*(cell_coordinates(length)[::stride] for length in shape), indexing="ij")
    np.testing.assert_array_equal(described.points, np.stack([axis.ravel() for axis in axes], axis=-1))
    space = (slice(None, None, stride),) * len(shape)
    found = list(source.trajectories)
    assert [trajectory.split for trajectory in found] == ["test"] + ["train"] * 8 + ["validation"]
    for index, trajectory in enumerate(found):
        for channel, name in enumerate(values):
            expected = values[name][index][(slice(None, None, 2), *space)].reshape(2, -1)
            np.testing.assert_array_equal(trajectory.fields[..., channel], expected)


def test_three_dimensions_are_halved_as_in_the_paper(tmp_path):
    write_flow(tmp_path / "flow.hdf5", (4, 4, 4))
    described = PDEBench(path=tmp_path / "flow.hdf5").source().description
    assert described.grid_shape == (2, 2, 2)
    assert len(described.times) == 3
    np.testing.assert_allclose(np.unique(described.points), [1 / 8, 5 / 8], rtol=1e-6)  # (4i + 1)/256 at 128³


def test_options(tmp_path):
    write_burgers(tmp_path / "b.hdf5")
    source = PDEBench(path=tmp_path / "b.hdf5", test=10, samples=3, periodic=False).source()
    assert [trajectory.split for trajectory in source.trajectories] == ["test"] * 3 + ["train"] * 3 + ["validation"]
    assert source.count == 7
    assert source.description.box.periodic == (False,)
    write_flow(tmp_path / "1D_CFD_Shock_trans_Train.hdf5", (8,))
    assert PDEBench(path=tmp_path / "1D_CFD_Shock_trans_Train.hdf5").source().description.box.periodic == (False,)


@pytest.mark.parametrize(("option", "message"), [({"test": 20}, "20 to test"), ({"space_stride": 3}, "space_stride")])
def test_options_that_do_not_fit(tmp_path, option, message):
    write_burgers(tmp_path / "b.hdf5")
    with pytest.raises(InputError, match=message):
        PDEBench(path=tmp_path / "b.hdf5", **option).source()


def _replace(name, values):
    def change(file):
        if name in file:
            del file[name]
        if values is not None:
            file[name] = values

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_replace("tensor", None), "expected the dataset 'tensor'"),
        (_replace("tensor", random(0, 4, 5)), r"dataset 'tensor': expected axes \(sample, time, x\), got shape \(4, 5\)"),
        (_replace("tensor", random(0, 4, 1, 5, 5)), "dataset 'tensor': expected axes"),
        (_replace("tensor", random(0, 0, 11, 16)), "dataset 'tensor': expected axes"),
        (_replace("tensor", [["a", "b"]]), "dataset 'tensor': expected numbers, got object"),
        (_replace("tensor", np.array([[b"1", b"2"]])), "dataset 'tensor': expected numbers"),
        (_replace("tensor", random(0, 2, 3, 16) > 0), "dataset 'tensor': expected numbers, got bool"),
        (_replace("tensor/inner", random(0, 2, 3, 16)), "dataset 'tensor': there is none"),
        (_replace("x-coordinate", None), "dataset 'x-coordinate': there is none"),
        (_replace("x-coordinate", np.arange(15.0)), "dataset 'x-coordinate': expected axes"),
        (_replace("x-coordinate", np.arange(16.0)[::-1]), "dataset 'x-coordinate': expected finite, increasing"),
        (_replace("x-coordinate", np.arange(16.0) ** 2), "dataset 'x-coordinate': expected equally spaced"),
        (_replace("x-coordinate", np.full(16, np.nan)), "dataset 'x-coordinate': expected finite"),
        (_replace("t-coordinate", np.arange(10.0)), "dataset 't-coordinate': expected 11 or 12 times, got 10"),
        (_replace("t-coordinate", np.zeros(12)), "dataset 't-coordinate': expected finite, increasing"),
        (_replace("t-coordinate", "soon"), "dataset 't-coordinate': expected numbers"),
    ],
)
def test_files_that_do_not_fit(tmp_path, change, problem):
    path = tmp_path / "b.hdf5"
    write_burgers(path)
    with h5py.File(path, "r+") as file:
        if problem.endswith("'tensor': there is none"):
            del file["tensor"]
        change(file)
    with pytest.raises(FileError, match=rf"b\.hdf5.*{problem}"):
        PDEBench(path=path).source()


def test_a_missing_or_different_velocity_is_named(tmp_path):
    path = tmp_path / "flow.hdf5"
    write_flow(path, (4, 6))
    with h5py.File(path, "r+") as file:
        del file["Vy"]
    with pytest.raises(FileError, match="dataset 'Vy': there is none; / holds Vx, density"):
        PDEBench(path=path).source()
    with h5py.File(path, "r+") as file:
        file["Vy"] = random(0, 10, 3, 6, 4)
    with pytest.raises(FileError, match=r"dataset 'Vy': expected axes \(sample=10, time=3, x=4, y=6\)"):
        PDEBench(path=path).source()


@pytest.mark.parametrize("options", [{}, {"chunks": (1, 11, 16)}])
def test_what_was_never_written_is_not_read_as_zeros(tmp_path, options):
    path = tmp_path / "b.hdf5"
    write_burgers(path)
    with h5py.File(path, "r+") as file:
        del file["tensor"]
        tensor = file.create_dataset("tensor", (20, 11, 16), dtype="f4", **options)
        if options:
            tensor[:19] = 1
    with pytest.raises(FileError, match="dataset 'tensor': was never written completely"):
        PDEBench(path=path).source()


@pytest.mark.parametrize("name", ["tensor", "x-coordinate"])
@pytest.mark.parametrize("way", WAYS_OUT)
def test_what_leads_out_of_the_file_is_not_followed(tmp_path, name, way):
    write_burgers(tmp_path / "b.hdf5")
    lead_out(tmp_path / "b.hdf5", name, way)
    with pytest.raises(FileError, match=rf"b\.hdf5, {name}: {way}"):
        PDEBench(path=tmp_path / "b.hdf5").source()
