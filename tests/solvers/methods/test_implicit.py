"""Implicit steps: the sparse system against a dense one, the order in time, and corrections that keep a gas a gas."""

from __future__ import annotations

import numpy as np

from calm_pde.solvers.methods.dual_mesh import DualMesh
from calm_pde.solvers.methods.euler import Euler
from calm_pde.solvers.methods.gas import conserved, free_stream, primitive
from calm_pde.solvers.methods.implicit import BlockSystem, Unsteady, positive
from tests.solvers.gas_flows import Vortex, box_mesh

DUAL = DualMesh(box_mesh((-2.0, -2.0), (2.0, 2.0), 10, 10))


def test_blocks_are_solved_as_the_dense_matrix():
    draw, count = np.random.default_rng(0), len(DUAL.volumes)
    own, ahead, back = (draw.normal(size=(4, 4, n)) for n in (count, DUAL.ends.shape[1], DUAL.ends.shape[1]))
    own = own + 20 * np.eye(4)[:, :, None]
    dense = np.zeros((count, 4, count, 4))
    nodes, (first, second) = np.arange(count), DUAL.ends
    for rows, columns, blocks in ((nodes, nodes, own), (first, second, ahead), (second, first, back)):
        dense[rows, :, columns, :] = np.moveaxis(blocks, 2, 0)
    right, system = draw.normal(size=(4, count)), BlockSystem(DUAL)
    found = system.solve(system.factors(own, ahead, back), right)
    assert np.allclose(found.T.ravel(), np.linalg.solve(dense.reshape(4 * count, -1), right.T.ravel()), atol=1e-10)


def test_second_order_in_time():
    """Against many small steps on the same mesh; uneven steps keep the order."""
    vortex, system, states = Vortex(), BlockSystem(DUAL), []
    euler = Euler(DUAL, vortex.outside, far=["edge"])
    for steps in (4, 8, 64):
        flow = Unsteady(euler, system, tolerance=1e-9, most=60)
        flow.start(conserved(vortex(DUAL.mesh.points, 0.0)))
        pattern = np.tile([0.75, 1.25], steps // 2)
        for share in pattern / pattern.sum():
            flow.step(0.6 * share)
        states.append(flow.state)
    errors = [np.abs(state - states[-1]).mean() for state in states[:-1]]
    print(f"4 and 8 steps: {errors}, order {np.log2(errors[0] / errors[1]):.2f}")
    assert np.log2(errors[0] / errors[1]) > 1.7


def test_what_is_left_of_a_step_is_told():
    vortex = Vortex()
    flow = Unsteady(Euler(DUAL, vortex.outside, far=["edge"]), BlockSystem(DUAL), tolerance=1e-12, most=3)
    flow.start(conserved(vortex(DUAL.mesh.points, 0.0)))
    flow.step(0.2)
    assert 1e-6 < flow.unsolved < 0.5


def test_corrections_keep_density_and_pressure_positive():
    state = conserved(np.tile(free_stream(0.5)[:, None], 5))
    change = np.zeros_like(state)
    change[0, 0], change[3, 1], change[1, 2], change[0, 3] = -3.0, -3.0, 50.0, 0.1
    after = primitive(positive(state, change))
    assert after[[0, 3]].min() > 0
    assert np.array_equal(positive(state, change)[:, 3:], (state + change)[:, 3:])  # harmless ones are taken whole
    assert (positive(state, change) != state).any(axis=0)[:4].all()
