"""Geometry: which cells points become, that grids are filled with cells of positive measure, and what is an image."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.errors import InputError
from calm_pde.export.cells import Image, cell_type, geometry_of
from calm_pde.geometry import cell_centers, tensor_grid


def test_types_by_corners_and_dimension():
    assert [cell_type(corners, 1) for corners in (1, 2)] == [1, 3]
    assert [cell_type(corners, 2) for corners in (2, 3, 4, 5)] == [3, 5, 9, 7]
    assert [cell_type(corners, 3) for corners in (2, 3, 4, 5, 6, 8)] == [3, 5, 10, 14, 13, 12]
    with pytest.raises(InputError, match="cells: expected cells of 1, 2, 3, 4, 5, 6, 8 corners in 3-D, got 7 corners"):
        cell_type(7, 3)


def test_quads_of_a_grid_tile_it():
    axes = np.array([0.0, 1.0, 3.0, 4.0]), np.array([0.0, 0.5, 2.0])
    mesh = geometry_of(tensor_grid(*axes), grid_shape=(4, 3))
    assert set(mesh.types) == {9}
    corners = mesh.points[mesh.connectivity.reshape(-1, 4)][..., :2]
    after = np.roll(corners, -1, axis=1)
    areas = (corners[..., 0] * after[..., 1] - corners[..., 1] * after[..., 0]).sum(axis=1) / 2
    assert len(areas) == 6
    assert (areas > 0).all()
    assert areas.sum() == pytest.approx(8.0)


def test_hexahedra_of_a_grid_tile_it():
    mesh = geometry_of(tensor_grid(*[np.array([0.0, 1.0, 3.0])] * 3), grid_shape=(3, 3, 3))
    corners = mesh.points[mesh.connectivity.reshape(-1, 8)]
    edges = corners[:, [1, 3, 4]] - corners[:, :1]  # of VTK's hexahedron: to the next, along the other side, and up
    np.testing.assert_allclose(np.linalg.det(edges).sum(), 27.0)
    assert (np.linalg.det(edges) > 0).all()
    np.testing.assert_allclose(corners[:, 6] - corners[:, 0], edges.sum(axis=1))


def test_what_is_an_image():
    centers = tensor_grid(cell_centers(8), 4 * cell_centers(5))
    image = geometry_of(centers, grid_shape=(8, 5))
    assert isinstance(image, Image)
    np.testing.assert_allclose([*image.origin, *image.spacing], [1 / 16, 0.4, 1 / 8, 0.8], rtol=1e-12)
    assert isinstance(geometry_of(centers.astype(np.float32).astype(float), grid_shape=(8, 5)), Image)
    bent = centers + 1e-3 * np.random.default_rng(0).normal(size=centers.shape)
    swapped = tensor_grid(cell_centers(5), cell_centers(8)).reshape(5, 8, 2).swapaxes(0, 1).reshape(-1, 2)
    far = np.random.default_rng(0).uniform(1e9, 1e9 + 1, size=centers.shape)
    for points in (bent, swapped, centers[::-1], far):
        assert not isinstance(geometry_of(points, grid_shape=(8, 5)), Image)


def test_flat_axes_and_single_points():
    flat = geometry_of(tensor_grid(np.arange(3.0), np.zeros(1), np.arange(4.0)), grid_shape=(3, 1, 4))
    assert set(flat.types) == {9}
    assert set(geometry_of(np.zeros((1, 2)), grid_shape=(1, 1)).types) == {1}
    assert set(geometry_of(np.arange(4.0)[:, None], grid_shape=(4,)).types) == {3}


def test_what_does_not_fit_is_refused():
    points = np.zeros((4, 2))
    with pytest.raises(InputError, match=r"cells: expected corners from 0 to 3.*got 0 … 4"):
        geometry_of(points, cells=np.array([[0, 1, 4]]))
    with pytest.raises(InputError, match=r"cells: .*got -1"):
        geometry_of(points, cells=np.array([[0, 1, -1]]))
    with pytest.raises(InputError, match=r"grid_shape: expected 4 points, got \(3, 2\)"):
        geometry_of(points, grid_shape=(3, 2))
    with pytest.raises(InputError, match=r"points: .*got shape \(4, 4\)"):
        geometry_of(np.zeros((4, 4)))
