"""Meshes on springs: no inverted triangle, good shapes, wanted sizes, the whole region, and the same mesh again."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.errors import InputError
from calm_pde.solvers.mesh.distmesh import circle, rectangle, spaced, triangulate, without
from calm_pde.solvers.mesh.triangles import areas, boundary_edges, edges, qualities

MIDDLE, RADIUS = (0.5, 0.5), 0.2


def around(part: np.ndarray) -> np.ndarray:
    return np.array(MIDDLE) + RADIUS * np.stack([np.cos(2 * np.pi * part), np.sin(2 * np.pi * part)], axis=1)


def graded(factor: float):
    """Edges of 0.03 at the hole, growing to 0.1."""
    hole = circle(MIDDLE, RADIUS)
    return lambda points: factor * np.minimum(0.03 + 0.2 * np.maximum(hole(points), 0.0), 0.1)


def square_with_hole(factor: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, int]:
    size = graded(factor)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    ends = zip(corners, np.roll(corners, -1, axis=0), strict=True)
    sides = [spaced(lambda part, a=a, b=b: a + part[:, None] * (b - a), size)[:-1] for a, b in ends]
    fixed = np.concatenate([*sides, spaced(around, size)[:-1]])
    region = without(rectangle((0.0, 0.0), (1.0, 1.0)), circle(MIDDLE, RADIUS))
    return *triangulate(fixed, region, size, np.random.default_rng(seed)), len(fixed)


@pytest.mark.parametrize("seed", range(4))
def test_triangles_are_good_whatever_the_seed(seed):
    points, cells, fixed = square_with_hole(1.0, seed)
    quality = qualities(points, cells)
    print(f"{len(points)} points, quality min {quality.min():.2f}, mean {quality.mean():.3f}")
    assert quality.min() > 0.45
    assert quality.mean() > 0.95
    assert len(points) - len(edges(cells)[0]) + len(cells) == 0  # Euler: one hole
    assert np.array_equal(np.unique(boundary_edges(cells)), np.arange(fixed))


def test_the_area_converges_to_that_of_the_region():
    """What is missing is what a polygon misses of its circle, of second order in the edge length."""
    exact = 1 - np.pi * RADIUS**2
    errors = []
    for factor in (2.0, 1.0):
        points, cells, _ = square_with_hole(factor)
        errors.append(areas(points, cells).sum() - exact)
        around_hole = (np.abs(np.linalg.norm(points - MIDDLE, axis=1) - RADIUS) < 1e-12).sum()
        polygon = RADIUS**2 * 0.5 * around_hole * np.sin(2 * np.pi / around_hole)
        assert areas(points, cells).sum() == pytest.approx(1 - polygon, abs=1e-12)
    assert 0 < errors[1] < 0.35 * errors[0]
    assert errors[1] < 1e-3


def test_edges_have_the_wanted_lengths():
    points, cells, _ = square_with_hole(0.7)
    found, _ = edges(cells)
    ratio = np.linalg.norm(points[found[:, 0]] - points[found[:, 1]], axis=1) / graded(0.7)(points[found].mean(axis=1))
    print(f"length over wanted length: mean {ratio.mean():.3f}, deviation {ratio.std():.3f}")
    assert abs(ratio.mean() - 1) < 0.05
    assert ratio.std() < 0.2
    wanted = (2 / np.sqrt(3) / graded(0.7)(points[cells].mean(axis=1)) ** 2 * areas(points, cells)).sum()
    assert len(cells) == pytest.approx(2 * wanted, rel=0.05)  # a triangle has the area √3/4 h²


def test_all_sides_are_treated_alike():
    """The region has the symmetries of a square: every quarter holds as many triangles of the same shape."""
    counts, shapes = np.zeros(4), np.zeros(4)
    for seed in range(5):
        points, cells, _ = square_with_hole(1.0, seed)
        middles = points[cells].mean(axis=1)
        quarter = 2 * (middles[:, 0] > 0.5) + (middles[:, 1] > 0.5)
        counts += np.bincount(quarter, minlength=4)
        shapes += np.bincount(quarter, weights=qualities(points, cells), minlength=4)
    assert np.ptp(counts) < 0.05 * counts.mean()
    assert np.ptp(shapes / counts) < 0.01


def test_a_seed_is_a_mesh():
    one, again, other = square_with_hole(1.0, 3), square_with_hole(1.0, 3), square_with_hole(1.0, 4)
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert one[0].shape != other[0].shape or not np.array_equal(one[0], other[0])


def test_spaced_points_share_the_curve_by_the_wanted_length():
    """h = 0.1 + 0.1x on [0, 1]: ∫dx/h = 10 ln 2 = 6.93, so 7 edges, whose ends are at x = 2^{i/7} − 1."""
    found = spaced(lambda part: np.stack([part, 0 * part], axis=1), lambda points: 0.1 + 0.1 * points[:, 0])
    assert np.allclose(found[:, 0], 2 ** (np.arange(8) / 7) - 1, atol=1e-6)
    assert len(spaced(around, lambda points: np.full(len(points), 5.0), fewest=12)) == 13


def test_signed_distances():
    box, disk = rectangle((0.0, 0.0), (2.0, 1.0)), circle((1.0, 0.5), 0.25)
    places = np.array([[1.0, 0.5], [0.1, 0.5], [1.0, 0.0], [2.5, 0.5], [1.0, 0.75]])
    assert np.allclose(box(places), [-0.5, -0.1, 0.0, 0.5, -0.25])
    assert np.allclose(disk(places), [-0.25, 0.65, 0.25, 1.25, 0.0])
    assert np.allclose(without(box, disk)(places), [0.25, -0.1, 0.0, 0.5, 0.0])


def test_a_boundary_that_is_not_resolved_is_named():
    """A fixed point in the middle of the hole lies on no boundary."""
    fixed = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.5]])
    region = without(rectangle((0.0, 0.0), (1.0, 1.0)), circle(MIDDLE, RADIUS))
    draw = np.random.default_rng(0)
    with pytest.raises(InputError, match="instead of 5"):
        triangulate(fixed, region, lambda points: np.full(len(points), 0.5), draw)
