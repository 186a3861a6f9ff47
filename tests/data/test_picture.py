"""Pictures of fields on even grids, bent grids, quadrangles, clouds and volumes."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from calm_pde.data.picture import draw_plane, field_label, limits, middle_plane
from calm_pde.geometry import Box, cell_centers, tensor_grid
from calm_pde.records.description import Description, Field

NORM = {"vmin": 0.0, "vmax": 1.0}


def described(points: np.ndarray, shape: tuple[int, ...] | None) -> Description:
    dim = points.shape[1]
    return Description("a", (Field(name="u"),), Box((0.0,) * dim, (1.0,) * dim), np.zeros(1), points, grid_shape=shape)


def drawn(points: np.ndarray, row: np.ndarray, shape: tuple[int, ...] | None = None, cells: np.ndarray | None = None):
    return draw_plane(Figure().subplots(), points, cells, row, described(points, shape), NORM)


def test_an_even_grid_is_an_image_and_a_bent_one_is_not():
    points = tensor_grid(cell_centers(5), cell_centers(3))
    row = np.arange(15.0)
    assert np.array_equal(drawn(points, row, (5, 3)).get_array(), row.reshape(5, 3).T)
    for bent in (points**2, points @ np.array([[1.0, 0.3], [0.0, 1.0]])):
        mesh = drawn(bent, row, (5, 3))
        assert type(mesh).__name__ == "QuadMesh"
        assert np.array_equal(mesh.get_coordinates().reshape(-1, 2), bent)


def test_a_grid_with_points_left_out_is_a_cloud():
    points = tensor_grid(cell_centers(5), cell_centers(3))[::2]
    assert np.array_equal(drawn(points, np.arange(8.0), (5, 3)).get_offsets(), points)


def test_quadrangles_are_cut_in_two():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    mesh = drawn(points, np.arange(4.0), cells=np.array([[0, 1, 2, 3]]))
    assert mesh._triangulation.triangles.tolist() == [[0, 1, 2], [0, 2, 3]]


def test_volumes_are_cut_at_half_their_height():
    points = tensor_grid(cell_centers(4), cell_centers(3), cell_centers(5))
    row = np.arange(60.0)
    assert np.array_equal(drawn(points, row, (4, 3, 5)).get_array(), row.reshape(4, 3, 5)[:, :, 2].T)
    kept, description = middle_plane(points, described(points, None))
    assert np.array_equal(points[kept, 2], np.full(12, 0.5))
    assert description.grid_shape is None
    assert np.array_equal(drawn(points, row).get_offsets(), points[kept, :2])


@pytest.mark.parametrize(
    ("values", "expected"), [([-1, 3], (-3, 3)), ([1, 3], (1, 3)), ([2, 2], (2, 3)), ([np.nan, 1], (1, 2))]
)
def test_signed_fields_have_zero_in_the_middle(values, expected):
    found = limits(np.array(values, dtype=float))
    assert (found["vmin"], found["vmax"]) == expected


def test_labels_are_plain_text():
    assert field_label(Field(name="u", unit="m/s")) == "u [m/s]"
    assert field_label(Field(name="$a$")) == r"\$a\$"
