"""Cell measures by area."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.metrics.cell_weights import cell_weights


def test_cell_weights_integrate_linear_functions_exactly():
    """On triangles, on quadrilaterals, on tetrahedra and on segments; ∫x over the unit box is ½."""
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.3, 0.6]])
    triangles = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
    slanted = np.array([[0.0, 0.0], [0.4, 0.0], [1.0, 0.0], [0.0, 1.0], [0.7, 1.0], [1.0, 1.0]])
    quadrilaterals = np.array([[0, 1, 4, 3], [1, 2, 5, 4]])
    corner = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    line = np.array([[0.0], [0.2], [1.0]])
    whole = {"area": 1.0, "moment": 0.5}
    for points, cells, expected in (
        (square, triangles, whole),
        (slanted, quadrilaterals, {"area": 1.0}),
        (corner, np.array([[0, 1, 2, 3]]), {"area": 1 / 6, "moment": 1 / 24}),
        (line, np.array([[0, 1], [2, 1]]), whole),
    ):
        weights = cell_weights(points, cells, (False,) * points.shape[1])
        assert weights is not None
        assert weights.sum() == pytest.approx(expected["area"], rel=1e-12)
        if "moment" in expected:
            assert weights @ points[:, 0] == pytest.approx(expected["moment"], rel=1e-12)


def test_cells_across_a_periodic_seam_are_small():
    points = (np.arange(4) / 4)[:, None]
    ring = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    weights = cell_weights(points, ring, (True,))
    assert weights is not None
    np.testing.assert_allclose(weights, 0.25)


def test_other_cells_have_no_weights():
    assert cell_weights(np.zeros((8, 3)), np.arange(8)[None], (False,) * 3) is None
