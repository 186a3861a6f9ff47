"""Geo-FNO's steady sets: exact arrays, splits, features, boxes, and arrays that do not belong together."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.data.readers import Elasticity, SteadyAirfoil
from calm_pde.errors import FileError, InputError
from tests.data.readers.files import random, write_airfoils, write_elasticity


def test_steady_airfoil(tmp_path):
    x, y, flow = write_airfoils(tmp_path)
    source = SteadyAirfoil(path=tmp_path, train=10, test=1).source()
    described = source.description
    assert [field.name for field in described.fields] == ["density", "velocity_x", "velocity_y", "pressure", "mach"]
    assert described.targets == ("mach",)
    assert [field.name for field in described.features] == ["x", "y"]
    assert described.steady
    assert described.grid_shape == (5, 3)
    assert described.points is None
    np.testing.assert_array_equal(described.box.lower, [x[:11].min(), y[:11].min()])
    np.testing.assert_array_equal(described.box.upper, [x[:11].max(), y[:11].max()])
    found = list(source.trajectories)
    assert source.count == len(found) == 11
    assert [trajectory.split for trajectory in found] == ["train"] * 9 + ["validation", "test"]
    for index, trajectory in enumerate(found):
        np.testing.assert_array_equal(trajectory.points, np.stack([x[index].ravel(), y[index].ravel()], axis=-1))
        np.testing.assert_array_equal(trajectory.features, trajectory.points)
        np.testing.assert_array_equal(trajectory.fields, flow[index].reshape(1, 5, 15).transpose(0, 2, 1))


def test_steady_airfoil_on_its_index_grid(tmp_path):
    x, _, _ = write_airfoils(tmp_path)
    source = SteadyAirfoil(path=tmp_path, train=2, test=2, coordinates="index").source()
    np.testing.assert_array_equal(source.description.points, [(i / 4, j / 2) for i in range(5) for j in range(3)])
    assert source.description.box.upper == (1, 1)
    first = next(iter(source.trajectories))
    assert first.points is None
    np.testing.assert_array_equal(first.features[:, 0], x[0].ravel())


@pytest.mark.parametrize("inside", ["", "Meshes"])
def test_elasticity(tmp_path, inside):
    places, stress, radius, theta = write_elasticity(tmp_path / inside)
    source = Elasticity(path=tmp_path, train=10, test=2).source()
    described = source.description
    assert [field.name for field in described.fields] == ["stress"]
    assert (described.box.lower, described.box.upper) == ((0, 0), (1, 1))
    assert described.steady
    assert described.parameters == ("radius_0", "radius_1", "radius_2", "radius_3", "theta_0", "theta_1", "theta_2")
    found = list(source.trajectories)
    assert [trajectory.split for trajectory in found] == ["train"] * 9 + ["validation"] + ["test"] * 2
    assert source.count == 12
    for trajectory, index in zip(found, (*range(10), 13, 14), strict=True):
        np.testing.assert_array_equal(trajectory.points, places[:, :, index])
        np.testing.assert_array_equal(trajectory.features, places[:, :, index])
        np.testing.assert_array_equal(trajectory.fields, stress[None, :, index, None])
        np.testing.assert_array_equal(trajectory.parameters, [*radius[:, index], *theta[index]])


def test_elasticity_without_the_shape_files(tmp_path):
    write_elasticity(tmp_path)
    (tmp_path / "Random_UnitCell_rr_10.npy").unlink()
    (tmp_path / "Random_UnitCell_theta_10.npy").unlink()
    source = Elasticity(path=tmp_path, train=3, test=1, samples=1).source()
    assert source.description.parameters == ()
    assert [(trajectory.split, trajectory.parameters) for trajectory in source.trajectories] == [
        ("train", None),
        ("test", None),
    ]


@pytest.mark.parametrize("reader", [SteadyAirfoil, Elasticity])
def test_the_published_parts_must_be_there(tmp_path, reader):
    write_airfoils(tmp_path)
    write_elasticity(tmp_path)
    with pytest.raises(InputError, match="1000 to train and 200 to test"):
        reader(path=tmp_path).source()
    with pytest.raises(FileError, match="is a file, expected a folder"):
        reader(path=tmp_path / "NACA_Cylinder_X.npy").source()


@pytest.mark.parametrize(
    ("reader", "name", "values"),
    [
        (SteadyAirfoil, "NACA_Cylinder_X.npy", random(0, 12, 15)),
        (SteadyAirfoil, "NACA_Cylinder_X.npy", np.zeros((12, 5, 3))),
        (SteadyAirfoil, "NACA_Cylinder_X.npy", np.full((12, 5, 3), np.nan)),
        (SteadyAirfoil, "NACA_Cylinder_Y.npy", random(0, 12, 3, 5)),
        (SteadyAirfoil, "NACA_Cylinder_Q.npy", random(0, 12, 4, 5, 3)),
        (SteadyAirfoil, "NACA_Cylinder_Q.npy", random(0, 11, 5, 5, 3)),
        (Elasticity, "Random_UnitCell_XY_10.npy", random(0, 7, 3, 15)),
        (Elasticity, "Random_UnitCell_XY_10.npy", np.array("text")),
        (Elasticity, "Random_UnitCell_sigma_10.npy", random(0, 15, 7)),
        (Elasticity, "Random_UnitCell_rr_10.npy", random(0, 4, 14)),
        (Elasticity, "Random_UnitCell_theta_10.npy", random(0, 3, 15)),
    ],
)
def test_arrays_that_do_not_belong_together(tmp_path, reader, name, values):
    write_airfoils(tmp_path)
    write_elasticity(tmp_path)
    np.save(tmp_path / name, values)
    with pytest.raises(FileError, match=f"{name}.*expected"):
        reader(path=tmp_path, train=5, test=1).source()


@pytest.mark.parametrize(
    ("reader", "name"), [(SteadyAirfoil, "NACA_Cylinder_Q.npy"), (Elasticity, "Random_UnitCell_sigma_10.npy")]
)
def test_a_missing_file_is_named(tmp_path, reader, name):
    write_airfoils(tmp_path)
    write_elasticity(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileError, match=f"{name}: there is no such file"):
        reader(path=tmp_path, train=5, test=1).source()
