"""The median dual: it is closed, fills the region, and its gradients are exact where fields are linear."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.solvers.mesh.graded import airfoil_mesh
from calm_pde.solvers.mesh.section import Section
from calm_pde.solvers.mesh.triangles import areas
from calm_pde.solvers.methods.dual_mesh import DualMesh
from tests.solvers.gas_flows import box_mesh


@pytest.fixture(scope="module", params=["box", "airfoil"])
def dual(request) -> DualMesh:
    return DualMesh(box_mesh((0, 0), (2, 1), 8, 5) if request.param == "box" else airfoil_mesh(Section(), 400, 20.0))


def test_volumes_are_closed(dual):
    """Σ of the outward normals of each volume, its part of the boundary included, is zero."""
    total = (dual.outflow @ dual.normals.T).T
    for side in dual.sides.values():
        total = total + dual.at_points(np.tile(0.5 * side.normals, 2), side.ends.ravel())
    assert np.abs(total).max() < 1e-14 * 40


def test_volumes_fill_the_region(dual):
    assert dual.volumes.min() > 0
    assert dual.volumes.sum() == pytest.approx(areas(dual.mesh.points, dual.mesh.cells).sum())


def test_normals_lead_from_the_first_end_to_the_second(dual):
    assert ((dual.normals * dual.offsets).sum(axis=0) > 0).all()


def test_a_linear_flux_diverges_exactly(dual):
    """∮x·n around an inner volume, with x at the middle of each edge for its whole face, is twice the area."""
    first, second = dual.ends
    middles = 0.5 * (dual.mesh.points[first] + dual.mesh.points[second]).T
    leaving = dual.outflow @ (middles * dual.normals).sum(axis=0)
    inner = np.ones(len(dual.volumes), dtype=bool)
    for side in dual.sides.values():
        inner[side.ends] = False
    assert np.allclose(leaving[inner], 2 * dual.volumes[inner], rtol=1e-9)


def test_gradients_of_linear_fields_are_exact(dual):
    slopes = np.array([[2.0, -1.0], [0.5, 3.0], [0.0, 0.0]])
    found = dual.gradients(slopes @ dual.mesh.points.T + np.array([[1.0], [0.0], [7.0]]))
    assert np.allclose(found, slopes.T[:, :, None], atol=1e-9)


def test_sides_point_outward(dual):
    """Away from the middle on the outer boundary, and into the body on the airfoil: its upper side looks down."""
    for name, side in dual.sides.items():
        middles = dual.mesh.points[side.ends].mean(axis=0)
        assert np.abs(side.normals.sum(axis=1)).max() < 1e-12
        if name == "airfoil":
            assert (side.normals[1] * middles[:, 1] < 0).all()
        else:
            center = np.array([1.0, 0.5]) if name == "edge" else np.zeros(2)
            assert ((middles - center) * side.normals.T).sum(axis=1).min() > 0
