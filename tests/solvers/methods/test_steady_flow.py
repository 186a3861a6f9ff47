"""Reaching a steady flow: the acceleration on linear problems, and the fall of the residual."""

from __future__ import annotations

import numpy as np

from calm_pde.solvers.mesh.graded import airfoil_mesh
from calm_pde.solvers.mesh.section import Section
from calm_pde.solvers.methods.dual_mesh import DualMesh
from calm_pde.solvers.methods.euler import Euler
from calm_pde.solvers.methods.gas import free_stream
from calm_pde.solvers.methods.implicit import BlockSystem
from calm_pde.solvers.methods.steady_flow import Mixing, Steady


def test_mixing_solves_a_linear_problem_in_as_many_steps_as_it_has_unknowns():
    draw = np.random.default_rng(0)
    matrix = np.eye(5) + 0.5 * draw.normal(size=(5, 5))
    right, state, mixing = draw.normal(size=5), np.zeros(5), Mixing(window=5)
    for _ in range(7):
        state = state + mixing(state, right - matrix @ state)
    assert np.allclose(matrix @ state, right, atol=1e-8)


def test_the_residual_falls_and_the_end_does_not_depend_on_the_way():
    dual = DualMesh(airfoil_mesh(Section(), 500, 20.0))
    euler = Euler(dual, free_stream(0.5, 1.0), walls=["airfoil"], far=["inflow"])
    system = BlockSystem(dual)
    (one, history), (other, _) = (Steady(fall=1e-6, most=400, window=window)(euler, system) for window in (20, 8))
    assert history[0] == 1
    assert history[-1] <= 1e-6
    assert len(history) < 250
    assert np.abs(one - other).max() < 1e-4
    weights = euler.limiter(one)
    assert np.linalg.norm(euler.residual(one)) < 0.05 * np.linalg.norm(euler.residual(euler.uniform()))
    assert ((weights > 0) & (weights < 1)).all()
