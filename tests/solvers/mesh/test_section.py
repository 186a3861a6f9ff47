"""Airfoil sections: the tabulated NACA 0012, and what displacements of the nodes do."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.solvers.mesh.section import Section, half_thickness


def test_ordinates_are_the_tabulated_ones():
    """Of a 12 % section, in percent of the chord; for a sharp tail the last coefficient is −0.1036 instead of −0.1015."""
    x = np.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7])
    table = np.array([0, 3.555, 4.683, 5.737, 6.002, 5.294, 3.664])
    assert np.allclose(100 * half_thickness(x), table - 60 * (0.1036 - 0.1015) * x**4, atol=0.001)
    assert half_thickness(np.array([1.0])) == 0


def test_the_outline_goes_around_once_from_the_tail_along_the_lower_side():
    outline = Section().outline(40)
    assert len(np.unique(outline, axis=0)) == 40
    assert np.array_equal(outline[0], [1, 0])
    assert np.allclose(outline[20], [0, 0], atol=1e-15)
    assert (outline[1:20, 1] < 0).all()
    assert np.allclose(outline[1:20] * [1, -1], outline[:20:-1])
    steps = np.linalg.norm(np.diff(outline, axis=0), axis=1)
    assert steps[19] < 0.5 * steps[10]
    assert steps[0] < 0.7 * steps[10]


@pytest.mark.parametrize(("node", "x", "sign"), [(1, 0.25, -1), (2, 0.75, -1), (5, 0.75, 1), (6, 0.25, 1)])
def test_a_displacement_moves_its_own_node(node, x, sign):
    """Where the surface crosses the height of the nodes nothing else counts; elsewhere the share is linear in y."""
    moved = Section(tuple(0.04 * (i == node) for i in range(8)))
    for side in (-1, 1):
        before, after = (section.side(np.array([x]), side)[0, 1] for section in (Section(), moved))
        share = 0.5 * (1 + sign * before / 0.1)
        assert after - before == pytest.approx(0.04 * share)


def test_equal_displacements_lift_the_whole_section():
    lifted = Section((0.03,) * 8).outline(60)
    assert np.allclose(lifted - Section().outline(60), [0, 0.03])


def test_sides_never_cross():
    """Over random shapes of the published distribution: the section keeps at least a quarter of its thickness everywhere."""
    x, draw = np.linspace(0.01, 0.99, 99), np.random.default_rng(0)
    for _ in range(500):
        section = Section((0.0, *draw.uniform(-0.05, 0.05, size=7)))
        gap = section.side(x, 1)[:, 1] - section.side(x, -1)[:, 1]
        assert (gap / (2 * half_thickness(x))).min() > 0.25
