"""Interpolation on triangles: exact for linear fields inside, and sensible just beyond the boundary."""

from __future__ import annotations

import numpy as np

from calm_pde.solvers.mesh.c_grid import c_grid
from calm_pde.solvers.mesh.graded import airfoil_mesh
from calm_pde.solvers.mesh.interpolation import Interpolation
from calm_pde.solvers.mesh.section import Section
from tests.solvers.gas_flows import box_mesh


def test_linear_fields_are_exact_inside():
    mesh, draw = box_mesh((0, 0), (2, 1), 9, 7), np.random.default_rng(1)
    places = draw.uniform((0, 0), (2, 1), size=(500, 2))
    slopes = np.array([[1.0, 2.0], [-3.0, 0.5]])
    found = Interpolation(mesh, places)
    assert np.allclose(found(slopes @ mesh.points.T + 1), slopes @ places.T + 1)
    assert found.outside.max() < 1e-9


def test_points_of_the_mesh_keep_their_values():
    mesh = box_mesh((0, 0), (2, 1), 9, 7)
    values = np.random.default_rng(2).normal(size=(3, len(mesh.points)))
    assert np.allclose(Interpolation(mesh, mesh.points)(values), values)


def test_a_place_beyond_the_boundary_takes_the_value_on_it():
    mesh = box_mesh((0, 0), (2, 1), 9, 7, jitter=0.0)
    found = Interpolation(mesh, np.array([[1.0, 1.01], [2.02, 0.5]]))(mesh.points.T)
    assert np.allclose(found.T, [[1.0, 1.0], [2.0, 0.5]], atol=0.02)


def test_every_point_of_a_c_grid_is_found():
    """Also where triangles are a thousand times smaller than others, on both sides of the thin tail."""
    section = Section((0.0, 0.03, -0.04, 0.05, 0.05, -0.02, 0.03, -0.05))
    grid = c_grid(section).reshape(-1, 2)
    mesh = airfoil_mesh(section, 1200, 60.0)
    found = Interpolation(mesh, grid)
    assert found.outside.max() < 0.05
    assert np.abs(found(mesh.points.T).T - grid).max() < 5e-4
    assert (np.abs(found(mesh.points.T).T - grid).max(axis=1) > 1e-9).mean() < 0.02
