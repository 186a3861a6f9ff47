"""Airfoil meshes by netgen: their size, quality, boundaries and repetition; and what is said where netgen is missing."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from calm_pde.errors import ConfigError, InputError
from calm_pde.solvers import Airfoil, SteadyAirfoil
from calm_pde.solvers.mesh.graded import airfoil_mesh
from calm_pde.solvers.mesh.section import Section
from calm_pde.solvers.mesh.triangles import areas, edges, qualities

BENT = Section((0.0, 0.03, -0.04, 0.05, 0.05, -0.02, 0.03, -0.05))


@pytest.mark.parametrize(("section", "points", "radius"), [(Section(), 850, 20.0), (BENT, 1200, 60.0)])
def test_size_quality_and_boundaries(section, points, radius):
    mesh = airfoil_mesh(section, points, radius)
    quality = qualities(mesh.points, mesh.cells)
    print(f"asked {points}: {len(mesh.points)} points, quality min {quality.min():.2f}, mean {quality.mean():.3f}")
    assert len(mesh.points) == pytest.approx(points, rel=0.03)
    assert quality.min() > 0.4
    assert quality.mean() > 0.93
    far = np.unique(mesh.boundary["inflow"])
    assert np.allclose(np.hypot(*mesh.points[far].T), radius)
    body = mesh.points[np.unique(mesh.boundary["airfoil"])]
    dense = np.concatenate([section.side(np.linspace(0, 1, 4001), sign) for sign in (-1, 1)])
    assert np.linalg.norm(body[:, None] - dense[None], axis=2).min(axis=1).max() < 2e-3
    gap = section.side(np.linspace(0, 1, 2001), 1)[:, 1] - section.side(np.linspace(0, 1, 2001), -1)[:, 1]
    polygon = 0.5 * len(far) * radius**2 * np.sin(2 * np.pi / len(far))
    assert areas(mesh.points, mesh.cells).sum() == pytest.approx(polygon - gap.mean(), rel=1e-5)


def test_edges_grow_away_from_the_airfoil():
    mesh = airfoil_mesh(Section(), 1000, 20.0)
    pairs, _ = edges(mesh.cells)
    ends = mesh.points[pairs]
    lengths, away = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1), np.linalg.norm(ends.mean(axis=1) - [0.5, 0], axis=1)
    near = np.linalg.norm(mesh.points - [0.5, 0], axis=1) < 0.6
    print(f"{len(mesh.points)} points, {near.sum()} within 0.6 of the middle, edges {lengths.min():.5f} to {lengths.max():.2f}")
    assert 0.4 < near.mean() < 0.6
    rings = [lengths[(away > low) & (away < 2 * low)].mean() for low in (2.0, 4.0, 8.0)]
    assert np.allclose(np.array(rings[1:]) / rings[:-1], 2, atol=0.3)


def test_a_mesh_is_repeated_to_the_bit():
    one, other = (airfoil_mesh(BENT, 500, 60.0) for _ in range(2))
    assert np.array_equal(one.points, other.points)
    assert np.array_equal(one.cells, other.cells)


def test_the_outline_comes_first():
    mesh = airfoil_mesh(BENT, 500, 60.0)
    count = int(np.flatnonzero(np.hypot(*mesh.points.T) > 30)[0])
    assert np.array_equal(mesh.points[:count], BENT.outline(count))


def test_without_netgen_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'calm-pde\[datagen\]'"):
        airfoil_mesh(Section(), 400, 20.0)
    for problem in (Airfoil, SteadyAirfoil):
        with pytest.raises(ConfigError, match=r"pip install 'calm-pde\[datagen\]'"):
            problem()


def test_sides_that_netgen_cannot_tell_apart_are_named():
    flat = Section((0.1,) * 4 + (-0.0998,) * 4)  # a thousandth of the thickness is left
    with pytest.raises(InputError, match="points: expected an outline whose sides"):
        airfoil_mesh(flat, 2000, 60.0)
