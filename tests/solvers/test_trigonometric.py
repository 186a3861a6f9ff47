"""Interpolation between the points of a periodic grid."""

from __future__ import annotations

import numpy as np
import pytest

from tests.solvers.methods.test_spectral import function, grid
from tests.solvers.trigonometric import interpolated


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("resolution", [7, 8])
def test_interpolation_is_exact_for_what_the_grid_holds(resolution, dim):
    points = np.random.default_rng(0).uniform(-1.0, 2.0, size=(50, dim))
    values = np.stack([function(grid(resolution, dim)), np.ones((resolution,) * dim)])
    found = interpolated(values, points)
    assert np.allclose(found[0], function(points), atol=1e-12)
    assert np.allclose(found[1], 1.0, atol=1e-14)


def test_interpolation_goes_through_any_values_at_the_grid():
    values = np.random.default_rng(0).normal(size=(3, 8, 6))
    places = np.stack(np.meshgrid(np.arange(8) / 8, np.arange(6) / 6, indexing="ij"), axis=-1).reshape(-1, 2)
    assert np.allclose(interpolated(values, places), values.reshape(3, -1), atol=1e-13)
