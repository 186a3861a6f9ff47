"""What is drawn of lines, planes and volumes."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.geometry import cell_centers, tensor_grid
from calm_pde.report.meshes import drawn_mesh, grid_triangles, thinned


def area(points: np.ndarray, triangles: np.ndarray) -> float:
    a, b, c = (points[triangles[:, corner]] for corner in range(3))
    u, v = b - a, c - a
    return float(np.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]).sum() / 2)


def test_a_plane_grid_is_covered_once():
    points = tensor_grid(np.linspace(0, 2, 7), np.linspace(0, 3, 5))
    mesh = drawn_mesh(points, None, (7, 5))
    assert mesh.triangles is not None
    assert area(points, mesh.triangles) == pytest.approx(6.0)


def test_quadrangles_are_cut_in_two():
    points = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype=float)
    mesh = drawn_mesh(points, np.array([[0, 1, 2, 3]]), None)
    assert mesh.triangles is not None
    assert len(mesh.triangles) == 2
    assert area(points, mesh.triangles) == pytest.approx(1.0)


def test_clouds_and_lines_have_no_triangles():
    assert drawn_mesh(np.random.default_rng(0).random((20, 2)), None, None).triangles is None
    assert drawn_mesh(np.arange(5.0)[:, None], None, (5,)).triangles is None


@pytest.mark.parametrize("side", [8, 40])
def test_a_volume_has_slices_and_a_cloud(side):
    points = tensor_grid(*[cell_centers(side)] * 3)
    mesh = drawn_mesh(points, None, (side,) * 3, most=12_000)
    assert len(mesh.points) <= 12_000
    assert mesh.total == side**3
    assert np.array_equal(mesh.points, points[mesh.stored])
    assert {cut.axis for cut in mesh.slices} == {0, 1, 2}
    for cut in mesh.slices:
        there = mesh.points[cut.points]
        assert len(there) == side**2
        assert np.ptp(there[:, cut.axis]) == 0
        assert there[0, cut.axis] == cut.at
        assert cut.triangles is not None
        flat = np.delete(mesh.points, cut.axis, axis=1)
        assert area(flat, cut.triangles) == pytest.approx((1 - 1 / side) ** 2)


def test_slices_of_a_cloud_are_its_points_near_the_plane():
    points = np.random.default_rng(0).random((5000, 3))
    mesh = drawn_mesh(points, None, None, most=2000)
    assert len(mesh.points) <= 2000
    for cut in mesh.slices:
        away = np.abs(mesh.points[cut.points, cut.axis] - 0.5)
        assert away.max() < 0.1
        assert cut.triangles is None


def test_a_thinned_grid_is_a_grid_and_a_thinned_cloud_an_even_draw():
    points = tensor_grid(np.linspace(0, 1, 30), np.linspace(0, 1, 20))
    mesh = drawn_mesh(points, None, (30, 20))
    few = thinned(mesh, 100, (30, 20))
    assert len(few.points) <= 100
    assert few.triangles is not None
    assert np.array_equal(few.triangles, grid_triangles((10, 7)))
    assert np.array_equal(few.points, points[few.stored])
    cloud = thinned(mesh, 100, None)
    assert len(np.unique(cloud.stored)) == 100
    assert thinned(mesh, 600, None) is mesh
