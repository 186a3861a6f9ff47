"""The O-grid: on the square and on the curve, nested, convex whatever the curve, boundaries with the body to the left."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.errors import InputError
from calm_pde.solvers.mesh.o_grid import o_grid


def wavy(angles: np.ndarray) -> np.ndarray:
    return 0.3 + 0.09 * np.sin(5 * angles) - 0.05 * np.cos(2 * angles)


def corner_turns(corners: np.ndarray) -> np.ndarray:
    """(cell, 4): the cross product of the two edges at each corner."""
    ahead, behind = np.roll(corners, -1, axis=1) - corners, np.roll(corners, 1, axis=1) - corners
    return ahead[..., 0] * behind[..., 1] - ahead[..., 1] * behind[..., 0]


def area(loop: np.ndarray) -> float:
    """Of a closed polygon, positive against the clock."""
    x, y = loop.T
    return float(0.5 * np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


def test_rays_run_from_the_curve_to_equidistant_points_of_the_square():
    grid = o_grid(wavy, 20, 6)
    rays = grid.points.reshape(20, 6, 2) - 0.5
    angles = np.arctan2(rays[..., 1], rays[..., 0])
    assert np.allclose(angles, angles[:, :1], atol=1e-14)
    assert np.allclose(np.hypot(*rays[:, 0].T), wavy(angles[:, 0]), atol=1e-15)
    assert np.allclose(np.abs(rays[:, -1]).max(axis=1), 0.5, atol=1e-15)
    assert np.allclose(np.linalg.norm(np.diff(rays[:, -1], axis=0), axis=1), 0.2, atol=1e-15)
    corners = {(1, 0): 0, (1, 1): 5, (0, 1): 10, (0, 0): 15}
    assert all(np.array_equal(grid.points[ray * 6 + 5], corner) for corner, ray in corners.items())


def test_cells_fill_the_region_between_square_and_curve():
    grid = o_grid(wavy, 36, 27)
    quadrilaterals = grid.points[grid.quadrilaterals()]
    assert quadrilaterals.shape == (36 * 26, 4, 2)
    assert corner_turns(quadrilaterals).min() > 0
    total = sum(area(corners) for corners in quadrilaterals)
    assert total == pytest.approx(1.0 - area(grid.points[::27]), abs=1e-14)
    assert np.array_equal(np.bincount(grid.quadrilaterals().ravel()).reshape(36, 27), [[2] + [4] * 25 + [2]] * 36)


@pytest.mark.parametrize("grading", [0.2, 1.0, 30.0])
def test_cells_are_convex_whatever_the_curve(grading):
    draw = np.random.default_rng(0)
    for _ in range(50):
        grid = o_grid(lambda angles: draw.uniform(0.01, 0.499, len(angles)), 36, 9, grading=grading)
        assert corner_turns(grid.points[grid.quadrilaterals()]).min() > 0


@pytest.mark.parametrize("grading", [1.0, 5.0])
def test_a_finer_grid_holds_the_coarser_one(grading):
    coarse, fine = o_grid(wavy, 12, 5, grading=grading), o_grid(wavy, 36, 9, grading=grading)
    assert np.allclose(fine.points.reshape(36, 9, 2)[::3, ::2], coarse.points.reshape(12, 5, 2), atol=1e-15)


def test_grading_is_the_last_interval_over_the_first():
    grid = o_grid(wavy, 4, 2001, grading=7.0)
    steps = np.linalg.norm(np.diff(grid.points.reshape(4, 2001, 2), axis=1), axis=-1)
    assert np.allclose(steps[:, -1] / steps[:, 0], 7.0, rtol=2e-3)


@pytest.mark.parametrize("degree", [1, 2])
def test_boundaries_have_the_body_to_the_left(degree):
    """The sides go round against the clock, the curve with it, and every edge starts where the one before ends."""
    grid = o_grid(wavy, 16, 5)
    outer = np.concatenate([grid.side(number, degree) for number in range(4)])
    inner = grid.curve(degree)[::-1]
    for edges in (outer, inner):
        assert np.array_equal(edges[:, -1], np.roll(edges[:, 0], -1))
        assert edges.shape == (16 // degree, degree + 1)
    assert area(grid.points[outer[:, :-1].ravel()]) == pytest.approx(1.0)
    assert area(grid.points[inner[:, :-1].ravel()]) == pytest.approx(-area(grid.points[::5]))
    where = [(0, 1.0), (1, 1.0), (0, 0.0), (1, 0.0)]
    assert all((grid.points[grid.side(side, degree)][..., axis] == at).all() for side, (axis, at) in enumerate(where))


def test_quadratic_cells_are_rows_of_three():
    grid = o_grid(wavy, 8, 5)
    first = grid.cells(2)[0]
    assert first.tolist() == [0, 5, 10, 1, 6, 11, 2, 7, 12]
    assert grid.cells(2).shape == (4 * 2, 9)
    assert set(grid.cells(2).ravel()) == set(range(40))


def test_another_square():
    grid = o_grid(lambda angles: np.full(len(angles), 2.0), 8, 3, center=(1.0, -1.0), half_width=3.0)
    assert grid.points.min(axis=0).tolist() == [-2.0, -4.0]
    assert grid.points.max(axis=0).tolist() == [4.0, 2.0]


@pytest.mark.parametrize(
    ("around", "outward", "radius", "named"),
    [(10, 4, 0.3, "around.*10"), (8, 1, 0.3, "outward.*1"), (8, 4, 0.5, "radius.*0.5"), (8, 4, 0.0, "radius.*0")],
)
def test_what_cannot_be_meshed_is_named(around, outward, radius, named):
    with pytest.raises(InputError, match=named):
        o_grid(lambda angles: np.full(len(angles), radius), around, outward)
