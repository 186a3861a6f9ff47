"""Triangle tools on meshes small enough to count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.errors import InputError
from calm_pde.solvers.mesh.triangles import (
    TriangleMesh,
    areas,
    boundary_edges,
    counterclockwise,
    edges,
    node_types,
    qualities,
    without_unused,
)

SQUARE = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
TWO = np.array([[0, 1, 2], [0, 2, 3]])
SIDES = {"left": np.array([[3, 0]]), "rest": np.array([[0, 1], [1, 2], [2, 3]])}


def test_areas_are_signed():
    assert areas(SQUARE, TWO).tolist() == [1.0, 1.0]
    assert areas(SQUARE, TWO[:, ::-1]).tolist() == [-1.0, -1.0]
    assert areas(SQUARE, counterclockwise(SQUARE, np.array([[0, 2, 1], [0, 2, 3]]))).tolist() == [1.0, 1.0]


def test_quality_is_the_ratio_of_radii():
    """1 if equilateral; 3, 4, 5 has inradius 1 and circumradius 2.5; 0 if flat; negative if turned; free of scale."""
    equilateral = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    right = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    flat = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    cell = np.array([[0, 1, 2]])
    assert np.allclose(qualities(equilateral, cell), 1.0)
    assert np.allclose(qualities(right, cell), 2 * 1 / 2.5)
    assert np.allclose(qualities(1e-3 * right, cell[:, ::-1]), -0.8)
    assert np.allclose(qualities(flat, cell), 0.0)


def test_edges_are_listed_once_and_found_from_the_cells():
    found, places = edges(TWO)
    assert found.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3]]
    for cell, own in zip(TWO, places, strict=True):
        assert [sorted(pair) for pair in zip(cell, np.roll(cell, -1), strict=True)] == found[own].tolist()


def test_the_region_lies_to_the_left_of_its_boundary():
    outside = boundary_edges(TWO)
    assert sorted(outside.tolist()) == [[0, 1], [1, 2], [2, 3], [3, 0]]
    start, end = SQUARE[outside[:, 0]], SQUARE[outside[:, 1]]
    assert 0.5 * (start[:, 0] * end[:, 1] - start[:, 1] * end[:, 0]).sum() == pytest.approx(2.0)


def test_points_that_no_cell_uses_go():
    points, cells, kept = without_unused(np.insert(SQUARE, 1, 9.0, axis=0), np.array([[0, 2, 3], [0, 3, 4]]))
    assert np.array_equal(points, SQUARE)
    assert np.array_equal(cells, TWO)
    assert kept.tolist() == [0, 2, 3, 4]


def test_where_boundaries_meet_the_later_code_counts():
    mesh = TriangleMesh(SQUARE, TWO, SIDES)
    assert node_types(mesh, {"left": 4, "rest": 6}).tolist() == [6, 6, 6, 6]
    assert node_types(mesh, {"rest": 6, "left": 4, "absent": 1}).tolist() == [4, 6, 6, 4]
    with pytest.raises(InputError, match="none for rest"):
        node_types(mesh, {"left": 4})


@pytest.mark.parametrize(
    ("points", "cells", "boundary", "problem"),
    [
        (SQUARE, TWO[:, ::-1], SIDES, "2 others, first cell 0"),
        (np.append(SQUARE, [[5.0, 5.0]], axis=0), TWO, SIDES, "expected corners of triangles, got 1 others"),
        (SQUARE, TWO, {"left": SIDES["left"]}, "3 without a name and 0 that do not lie on it"),
        (SQUARE, TWO, SIDES | {"diagonal": np.array([[0, 2]])}, "0 without a name and 1 that do not lie on it"),
        (SQUARE, TWO, SIDES | {"again": np.array([[0, 3]])}, "every edge once, got 1 twice"),
    ],
    ids=["inverted", "unused", "unnamed", "inner", "twice"],
)
def test_a_mesh_that_is_none_is_refused(points, cells, boundary, problem):
    with pytest.raises(InputError, match=problem):
        TriangleMesh(points, cells, boundary)
