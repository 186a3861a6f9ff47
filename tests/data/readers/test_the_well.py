"""The Well: exact fields of every tensor order, repeated ones, folders of splits, strides, and what is refused."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from calm_pde.data.readers import TheWell
from calm_pde.errors import FileError, InputError
from tests.data.readers.files import write_well

NAMES = ["density", "profile", "velocity_x", "velocity_y", "strain_x_x", "strain_x_y", "strain_y_x", "strain_y_y"]


def test_one_file(tmp_path):
    values = write_well(tmp_path / "w.hdf5", count=10)
    source = TheWell(path=tmp_path / "w.hdf5").source()
    described = source.description
    assert described.name == "example"
    assert [field.name for field in described.fields] == NAMES
    assert (described.box.lower, described.box.upper, described.box.periodic) == ((0, -1), (1, 1), (True, False))
    np.testing.assert_array_equal(described.times, [0, 0.5, 1])
    y = np.linspace(-1, 1, 6, dtype=np.float32)
    np.testing.assert_array_equal(described.points, [(0.25 * i, y[j]) for i in range(4) for j in range(6)])
    assert described.parameters == ("viscosity", "forcing")
    found = list(source.trajectories)
    assert source.count == len(found) == 10
    assert [trajectory.split for trajectory in found] == ["train"] * 8 + ["validation", "test"]
    for index, trajectory in enumerate(found):
        assert trajectory.fields.dtype == np.float32
        fields = trajectory.fields.reshape(3, 4, 6, 8)
        np.testing.assert_array_equal(fields[..., 0], values["density"][index])
        np.testing.assert_array_equal(fields[..., 1], np.broadcast_to(values["profile"], (3, 4, 6)))
        np.testing.assert_array_equal(fields[..., 2:4], values["velocity"][index])
        np.testing.assert_array_equal(fields[..., 4:], values["strain"][index].reshape(3, 4, 6, 4))
        np.testing.assert_array_equal(trajectory.parameters, [values["viscosity"], values["forcing"][index]])


@pytest.mark.parametrize("inside", ["", "data"])
def test_a_folder_with_its_splits(tmp_path, inside):
    root = tmp_path / inside
    values = [
        write_well(root / f"{name}.hdf5", seed)
        for seed, name in ((0, "train/b"), (10, "train/a"), (20, "valid/c"), (30, "test/d"))
    ]
    (root / "train" / "readme.txt").write_text("not data")
    source = TheWell(path=tmp_path).source()
    found = list(source.trajectories)
    assert source.count == len(found) == 16
    assert [trajectory.split for trajectory in found] == ["train"] * 8 + ["validation"] * 4 + ["test"] * 4
    for place, which in enumerate((1, 0, 2, 3)):
        density = found[4 * place + 3].fields[..., 0].reshape(3, 4, 6)
        np.testing.assert_array_equal(density, values[which]["density"][3])
        assert found[4 * place].parameters[0] == values[which]["viscosity"]
    assert TheWell(path=tmp_path, samples=1).source().count == 3


def test_options(tmp_path):
    values = write_well(tmp_path / "w.hdf5")
    reader = TheWell(path=tmp_path / "w.hdf5", frame_stride=2, space_stride=2, skip=("strain", "density", "forcing"))
    source = reader.source()
    assert [field.name for field in source.description.fields] == ["profile", "velocity_x", "velocity_y"]
    assert source.description.grid_shape == (2, 3)
    assert source.description.parameters == ("viscosity",)
    assert len(source.description.points) == 6
    np.testing.assert_array_equal(source.description.times, [0, 1])
    first = next(iter(source.trajectories)).fields.reshape(2, 2, 3, 3)
    np.testing.assert_array_equal(first[..., 1:], values["velocity"][0, ::2, ::2, ::2])
    np.testing.assert_array_equal(first[1, 1, :, 0], values["profile"][::2])
    with pytest.raises(InputError, match="divisor of the 4 points of the periodic axis 'x'"):
        TheWell(path=tmp_path / "w.hdf5", space_stride=3).source()


def _delete(name):
    return lambda file: file.__delitem__(name)


def _attribute(node, name, value):
    return lambda file: file[node].attrs.__setitem__(name, value)


def _replace(name, values):
    def change(file):
        attributes = dict(file[name].attrs)
        del file[name]
        file[name] = values
        file[name].attrs.update(attributes)

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_attribute("/", "grid_type", "spherical"), "expected grid_type 'cartesian', got 'spherical'"),
        (lambda file: file.attrs.__delitem__("grid_type"), "got None"),
        (_attribute("/", "n_trajectories", "four"), "attribute 'n_trajectories': expected a positive whole number"),
        (_attribute("/", "n_trajectories", 5), r"dataset 'density': expected axes \(sample=5"),
        (_attribute("/", "n_spatial_dims", 3), "attribute 'spatial_dims': expected 3 names"),
        (_attribute("dimensions", "spatial_dims", 7), "expected a list of names, got 7"),
        (_attribute("dimensions/x", "sample_varying", True), "dataset 'x': varies between"),
        (_attribute("dimensions/time", "sample_varying", True), "dataset 'time': varies between"),
        (_replace("dimensions/y", np.arange(6.0) ** 2), "dataset 'y': expected equally spaced"),
        (_replace("dimensions/y", np.zeros((2, 3))), "dataset 'y': expected axes"),
        (_replace("dimensions/y", "north"), "dataset 'y': expected numbers"),
        (_delete("dimensions"), "group 'dimensions': there is none"),
        (_delete("dimensions/time"), "dataset 'time': there is none"),
        (_delete("boundary_conditions"), "group 'boundary_conditions': there is none"),
        (_delete("boundary_conditions/y_boundary"), "axis 'y': has no boundary condition"),
        (_attribute("boundary_conditions/y_boundary", "associated_dims", ["x", "y"]), "axis 'x': is told to be both"),
        (_attribute("boundary_conditions/y_boundary", "bc_type", 3), "boundary condition 'y_boundary'"),
        (_delete("t1_fields/velocity"), "dataset 'velocity': there is none"),
        (_attribute("t1_fields", "field_names", 1.5), "attribute 'field_names' of '/t1_fields'"),
        (_attribute("t0_fields/density", "dim_varying", [True]), "dataset 'density': expected 2 flags"),
        (_attribute("t0_fields/density", "time_varying", False), r"dataset 'density': expected axes \(sample=4, x=4, y=6\)"),
        (_replace("t1_fields/velocity", np.zeros((4, 3, 4, 6, 3))), "dataset 'velocity': expected axes"),
        (_attribute("scalars/forcing", "time_varying", True), "scalar 'forcing': expected one number"),
        (_replace("scalars/forcing", np.zeros(3)), "scalar 'forcing': expected one number"),
    ],
)
def test_files_that_do_not_fit(tmp_path, change, problem):
    path = tmp_path / "w.hdf5"
    write_well(path)
    with h5py.File(path, "r+") as file:
        change(file)
    with pytest.raises(FileError, match=rf"w\.hdf5.*{problem}"):
        TheWell(path=path).source()


def test_nothing_left_to_read(tmp_path):
    write_well(tmp_path / "w.hdf5")
    with pytest.raises(FileError, match="holds no field to read"):
        TheWell(path=tmp_path / "w.hdf5", skip=("density", "profile", "velocity", "strain")).source()


def test_folders_that_do_not_fit(tmp_path):
    write_well(tmp_path / "train" / "a.hdf5")
    write_well(tmp_path / "valid" / "a.hdf5")
    with pytest.raises(FileError, match="test: there is no such file or folder"):
        TheWell(path=tmp_path).source()
    (tmp_path / "test").mkdir()
    with pytest.raises(FileError, match=r"test: holds no \.hdf5 files"):
        TheWell(path=tmp_path).source()
    write_well(tmp_path / "test" / "z.hdf5", shape=(4, 5))
    with pytest.raises(FileError, match=r"z\.hdf5: differs from a\.hdf5 in the coordinate 'y'"):
        TheWell(path=tmp_path).source()


def test_a_group_in_another_file_is_not_followed(tmp_path):
    write_well(tmp_path / "w.hdf5")
    with h5py.File(tmp_path / "w.hdf5", "a") as file, h5py.File(tmp_path / "other.hdf5", "w") as other:
        file.copy("t1_fields", other)
        del file["t1_fields"]
        file["t1_fields"] = h5py.ExternalLink("other.hdf5", "t1_fields")
    with pytest.raises(FileError, match=r"w\.hdf5, t1_fields: is an external link to t1_fields in other\.hdf5"):
        TheWell(path=tmp_path / "w.hdf5").source()
