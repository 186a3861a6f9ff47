"""The C-grid: the published sizes, box and cut, and cells that never fold."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.solvers.mesh.c_grid import LOWER, UPPER, c_grid
from calm_pde.solvers.mesh.section import Section


@pytest.fixture(params=range(6))
def section(request) -> Section:
    draw = np.random.default_rng(request.param)
    return Section((0.0, *draw.uniform(-0.05, 0.05, size=7))) if request.param else Section()


def test_it_has_the_published_shape_and_box(section):
    grid = c_grid(section)
    assert grid.shape == (221, 51, 2)
    assert np.array_equal(grid.min(axis=(0, 1)), LOWER)
    assert np.array_equal(grid.max(axis=(0, 1)), UPPER)


def test_it_runs_from_the_wake_around_the_section_and_back(section):
    wall, chord = c_grid(section)[:, 0], np.linspace(0, 1, 61)
    assert np.array_equal(wall[50:111], section.side(chord[::-1], -1))
    assert np.allclose(wall[110:170], section.side(chord, 1)[:-1], rtol=0, atol=1e-15)  # both sides meet at the nose
    assert np.array_equal(wall[:51], wall[:169:-1])  # both sides of the cut
    assert (np.diff(wall[170:, 0]) > 0).all()
    assert len(np.unique(np.concatenate([wall, c_grid(section)[:, 1:].reshape(-1, 2)]), axis=0)) == 221 * 51 - 51


def test_its_far_side_is_a_front_and_two_straight_lines(section):
    far = c_grid(section)[:, -1]
    assert np.allclose(np.hypot(far[50:171, 0] - 1, far[50:171, 1]), 40)
    assert np.allclose(np.abs(far[:51, 1]), 40)
    assert far[50] == pytest.approx([1, -40])


def test_no_cell_is_folded(section):
    grid = c_grid(section)
    a, b, c, d = grid[:-1, :-1], grid[1:, :-1], grid[1:, 1:], grid[:-1, 1:]
    for one, two, three in ((a, b, c), (b, c, d), (c, d, a), (d, a, b)):
        (x, y), (u, v) = np.moveaxis(two - one, 2, 0), np.moveaxis(three - two, 2, 0)
        assert (x * v - y * u).min() > 0


def test_cells_grow_outward_by_one_factor(section):
    ray = np.linalg.norm(np.diff(c_grid(section)[30], axis=0), axis=1)
    assert np.allclose(ray[1:] / ray[:-1], ray[1] / ray[0])
    assert ray[0] == pytest.approx(1 / 60, rel=0.05)
