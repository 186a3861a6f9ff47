"""Taylor–Hood elements: integrals of polynomials, exactly."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.geometry import tensor_grid
from calm_pde.solvers.mesh.triangles import TriangleMesh
from calm_pde.solvers.methods.taylor_hood import TaylorHood
from tests.solvers.divergence import relative_divergence


def box_mesh(columns: int, rows: int, width: float = 1.0, height: float = 1.0, shake: float = 0.2) -> TriangleMesh:
    """Shaken rectangles cut in two, with boundaries left, right and wall."""
    x, y = np.linspace(0, width, columns + 1), np.linspace(0, height, rows + 1)
    points = tensor_grid(x, y)
    number = np.arange(len(points)).reshape(columns + 1, rows + 1)
    moved = np.random.default_rng(0).uniform(-shake, shake, size=points.shape) * [width / columns, height / rows]
    inner = number[1:-1, 1:-1].ravel()
    points[inner] += moved[inner]
    a, b, c, d = (each.ravel() for each in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]))
    cells = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    lines = {"left": [number[0]], "right": [number[-1]], "wall": [number[:, 0], number[:, -1]]}
    pairs = {name: np.concatenate([np.stack([line[:-1], line[1:]], axis=1) for line in of]) for name, of in lines.items()}
    return TriangleMesh(points, cells, pairs)


@pytest.fixture(scope="module")
def space() -> TaylorHood:
    return TaylorHood(box_mesh(3, 4, 2.0, 1.0))


def test_mass_and_stiffness_of_quadratics(space):
    """On [0, 2] × [0, 1]: ∫x²·xy = 2, ∫∇(x²)·∇(xy) = ∫2xy = 2."""
    x, y = space.points.T
    assert (x**2) @ (space.matrix(space.mass) @ (x * y)) == pytest.approx(2.0)
    assert (x**2) @ (space.matrix(space.stiffness) @ (x * y)) == pytest.approx(2.0)
    assert np.abs(space.matrix(space.stiffness) @ np.ones_like(x)).max() < 1e-13


def test_transport_of_a_quadratic_by_a_quadratic(space):
    """w = (y², x), u = x², test v = y: ∫v w·∇u = ∫2xy³ = 1, and with u = y²: ∫y·x·2y = 4/3."""
    x, y = space.points.T
    matrix = space.matrix(space.transport(np.stack([y**2, x], axis=1)))
    assert y @ (matrix @ x**2) == pytest.approx(1.0)
    assert y @ (matrix @ y**2) == pytest.approx(4 / 3)


def test_divergence_and_gradient(space):
    """∇·(x², xy) = 3x: ∫y·3x = 3; ∫p∇·v with p = x + 2y, v = (x², 0): ∫(x + 2y)2x = 16/3 + 4."""
    x, y = space.points.T
    px, py = space.mesh.points.T
    assert py @ space.weak_divergence(np.stack([x**2, x * y], axis=1)) == pytest.approx(3.0)
    assert x**2 @ space.weak_gradient(px + 2 * py)[:, 0] == pytest.approx(16 / 3 + 4)
    assert px @ (space.laplacian @ (px + py)) == pytest.approx(2.0)


def test_norms(space):
    """u = (x², −2xy) is free of divergence; u = (x, 0) has ‖∇·u‖ = ‖∇u‖; ‖(x, 0)‖² = 8/3."""
    x, y = space.points.T
    assert relative_divergence(space, np.stack([x**2, -2 * x * y], axis=1)) < 1e-13
    assert relative_divergence(space, np.stack([x, 0 * x], axis=1)) == pytest.approx(1.0)
    assert space.norm(np.stack([x, 0 * x], axis=1)) == pytest.approx(np.sqrt(8 / 3))


def test_boundary_nodes_are_corners_and_midpoints_of_its_edges(space):
    left, wall = space.nodes("left"), space.nodes("wall")
    assert np.array_equal(np.sort(left), np.flatnonzero(space.points[:, 0] == 0))
    assert np.array_equal(np.sort(wall), np.flatnonzero((space.points[:, 1] == 0) | (space.points[:, 1] == 1)))
    assert len(left) == 4 + 5
