"""Elasticity: patch test, manufactured and Kirsch's solutions with their orders, equilibrium, symmetry, and the data file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from calm_pde.data.check import check
from calm_pde.data.generate import generate
from calm_pde.data.readers.geo_fno import Elasticity as Published
from calm_pde.errors import ConfigError, InputError
from calm_pde.geometry import tensor_grid
from calm_pde.solvers.mesh.o_grid import OGrid, o_grid
from calm_pde.solvers.methods.finite_elements import Mesh, quadrilateral, solve_symmetric
from calm_pde.solvers.problems.elasticity import RADII, Elasticity, PlaneStress, Void, pulled_cell, von_mises
from tests.data.readers.files import write_elasticity

SMALL = Elasticity(around=12, outward=7, elements_around=24, elements_outward=12)
MATERIAL = PlaneStress(young=2.0, poisson=0.3)


def draws(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


def matrix(mesh: Mesh, material: PlaneStress):
    return mesh.matrix(material.stiffness(mesh.gradient_products()))


# ---------------------------------------------------------------------------------------------------- a linear displacement


def bent_cells(degree: int) -> Mesh:
    """A few quadrilaterals that fill the unit square, their inner corners moved at random, with straight sides."""
    axis = np.linspace(0, 1, 5)
    corners = tensor_grid(axis, axis)
    inner = (corners > 0).all(axis=1) & (corners < 1).all(axis=1)
    corners[inner] += np.random.default_rng(0).uniform(-0.06, 0.06, (9, 2))
    squares = (np.arange(4)[:, None] * 5 + np.arange(4)).ravel()[:, None] + [0, 1, 5, 6]
    element = quadrilateral(degree)
    places = np.einsum("nk,ckx->cnx", quadrilateral(1).shape.values(element.shape.nodes), corners[squares])
    points, numbers = np.unique(places.reshape(-1, 2).round(12), axis=0, return_inverse=True)
    return Mesh(element, points, numbers.reshape(len(squares), -1))


@pytest.mark.parametrize("degree", [1, 2])
def test_patch(degree):
    """Given a linear displacement on the boundary, the rest follows to rounding, and the stress is constant."""
    mesh = bent_cells(degree)
    slope = np.array([[0.3, -0.7], [0.2, 0.9]])
    exact = mesh.points @ slope.T + [0.1, -0.2]
    fixed = np.repeat(((mesh.points < 1e-9) | (mesh.points > 1 - 1e-9)).any(axis=1)[:, None], 2, axis=1)
    found = solve_symmetric(matrix(mesh, MATERIAL), np.zeros(exact.shape), fixed, exact)
    error = np.abs(found - exact).max()
    stress = MATERIAL.stress(mesh.nodal_gradients(found))
    print(f"displacement {error:.1e}, stress {np.abs(stress - MATERIAL.stress(slope)).max():.1e}")
    assert not fixed.all()
    assert error < 1e-14
    assert np.abs(stress - MATERIAL.stress(slope)).max() < 1e-12


def test_a_pulled_sheet_without_a_void_is_in_uniaxial_stress():
    """Sliding supports below and at one corner: σ_yy is the traction, u = (−ν x, y) t/E."""
    mesh = bent_cells(2)
    low, left, top = mesh.points[:, 1] < 1e-9, mesh.points[:, 0] < 1e-9, mesh.points[:, 1] > 1 - 1e-9
    order = np.flatnonzero(top)[np.argsort(-mesh.points[top, 0])]
    edges = np.stack([order[0:-2:2], order[1:-1:2], order[2::2]], axis=1)
    load = mesh.edge_load(edges, lambda places, normals: 5.0 * normals)
    assert load.sum(axis=0) == pytest.approx([0.0, 5.0])
    fixed = np.stack([low & left, low], axis=1)
    found = solve_symmetric(matrix(mesh, MATERIAL), load, fixed, np.zeros(load.shape))
    assert np.abs(found - mesh.points * [-0.3 * 2.5, 2.5]).max() < 1e-13
    assert np.abs(MATERIAL.stress(mesh.nodal_gradients(found)) - [[0, 0], [0, 5.0]]).max() < 1e-12


def test_the_elements_agree_with_plane_stress():
    """σ from ε by the textbook's 3 × 3 matrix."""
    gradient = np.random.default_rng(1).normal(size=(2, 2))
    hooke = 2.0 / (1 - 0.09) * np.array([[1, 0.3, 0], [0.3, 1, 0], [0, 0, 0.35]])
    along, across, shear = hooke @ [gradient[0, 0], gradient[1, 1], gradient[0, 1] + gradient[1, 0]]
    assert np.allclose(MATERIAL.stress(gradient), [[along, shear], [shear, across]], atol=1e-14)


def test_von_mises():
    """Uniaxial, equal in both directions, pure shear."""
    cases = np.array([[[0.0, 0.0], [0.0, 7.0]], [[7.0, 0.0], [0.0, 7.0]], [[0.0, 2.0], [2.0, 0.0]]])
    assert von_mises(cases) == pytest.approx([7.0, 7.0, 2.0 * np.sqrt(3.0)])


def test_an_inverted_cell_is_named():
    mesh = bent_cells(1)
    with pytest.raises(InputError, match="inverted"):
        Mesh(mesh.element, mesh.points, mesh.cells[:, [1, 0, 3, 2]]).gradient_products()


# ------------------------------------------------------------------------------------------------------------------ orders


class Waves:
    """u = (sin(2x + y), cos(x − 3y)) with its stress and the force that holds it."""

    def displacement(self, places: np.ndarray) -> np.ndarray:
        x, y = np.moveaxis(places, -1, 0)
        return np.stack([np.sin(2 * x + y), np.cos(x - 3 * y)], axis=-1)

    def stress(self, places: np.ndarray) -> np.ndarray:
        x, y = np.moveaxis(places, -1, 0)
        one, two = np.cos(2 * x + y), -np.sin(x - 3 * y)
        gradient = np.stack([np.stack([2 * one, one], axis=-1), np.stack([two, -3 * two], axis=-1)], axis=-2)
        return MATERIAL.stress(gradient)

    def force(self, places: np.ndarray) -> np.ndarray:
        """−∇·σ = −μ Δu − (λ + μ) ∇(∇·u)."""
        first, shear = MATERIAL.moduli
        u, v = np.moveaxis(self.displacement(places), -1, 0)
        laplacian = np.stack([-5 * u, -10 * v], axis=-1)
        of_divergence = np.stack([-4 * u + 3 * v, -2 * u - 9 * v], axis=-1)  # ∇·u = 2 cos(2x + y) + 3 sin(x − 3y)
        return -shear * laplacian - (first + shear) * of_divergence


def body_load(mesh: Mesh, force: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(node, 2): ∫ f·N dx; f of positions (…, 2)."""
    _, area = mesh.gradients(mesh.element.places)
    values = mesh.element.shape.values(mesh.element.places)
    found = force(np.einsum("pn,cnx->cpx", values, mesh.points[mesh.cells]))
    load = np.zeros_like(mesh.points)
    np.add.at(load, mesh.cells, np.einsum("pn,cp,cpx->cnx", values, area * mesh.element.weights, found, optimize=True))
    return load


def held_by(grid: OGrid, exact: Waves) -> tuple[float, float]:
    """Largest errors of displacement and stress at nodes: the exact solution on the square, its traction on the void."""
    mesh = Mesh(quadrilateral(2), grid.points, grid.cells(2))

    def traction(places: np.ndarray, normals: np.ndarray) -> np.ndarray:
        return np.einsum("...ij,...j->...i", exact.stress(places), normals)

    load = body_load(mesh, exact.force) + mesh.edge_load(grid.curve(2), traction)
    fixed = np.zeros(grid.points.shape, dtype=bool)
    for side in range(4):
        fixed[grid.side(side)] = True
    found = solve_symmetric(matrix(mesh, MATERIAL), load, fixed, exact.displacement(grid.points))
    stress = MATERIAL.stress(mesh.nodal_gradients(found))
    errors = found - exact.displacement(grid.points), stress - exact.stress(grid.points)
    return float(np.sqrt(np.mean(errors[0] ** 2))), float(np.sqrt(np.mean(errors[1] ** 2)))


def test_manufactured_solution_at_third_and_second_order():
    """Around a random void, with a force in the body and a traction on the void."""
    void = Elasticity().void(np.random.default_rng(4))
    found = np.array([held_by(o_grid(void, 4 * count, count + 1), Waves()) for count in (16, 32, 64)])
    orders = np.log2(found[:-1] / found[1:])
    print(f"displacement {found[:, 0].tolist()}, stress {found[:, 1].tolist()}; orders {orders.tolist()}")
    assert orders[-1, 0] > 2.8, orders
    assert orders[-1, 1] > 1.9, orders


# ------------------------------------------------------------------------------------------------------------------ Kirsch


def kirsch(places: np.ndarray, radius: float, pull: float) -> np.ndarray:
    """Stress (…, 2, 2) around a round hole in an infinite sheet pulled along y."""
    x, y = np.moveaxis(places, -1, 0)
    share = radius**2 / (x**2 + y**2)
    angle = np.arctan2(y, x)
    double, twice = np.cos(2 * angle), np.sin(2 * angle)
    radial = pull / 2 * ((1 - share) - (1 - 4 * share + 3 * share**2) * double)
    hoop = pull / 2 * ((1 + share) + (1 + 3 * share**2) * double)
    shear = pull / 2 * (1 + 2 * share - 3 * share**2) * twice
    cosine, sine = np.cos(angle), np.sin(angle)
    turn = np.stack([np.stack([cosine, -sine], axis=-1), np.stack([sine, cosine], axis=-1)], axis=-2)
    polar = np.stack([np.stack([radial, shear], axis=-1), np.stack([shear, hoop], axis=-1)], axis=-2)
    return turn @ polar @ np.swapaxes(turn, -1, -2)


def around_a_hole(around: int, outward: int) -> tuple[float, float]:
    """Stress concentration and mean error of a hole of radius 1 in a square of 8 × 8, with Kirsch's traction on the square."""
    grid = o_grid(lambda angles: np.ones(len(angles)), around, outward, center=(0.0, 0.0), half_width=4.0, grading=4.0)
    mesh = Mesh(quadrilateral(2), grid.points, grid.cells(2))
    edges = np.concatenate([grid.side(side, 2) for side in range(4)])
    load = mesh.edge_load(edges, lambda places, normals: np.einsum("...ij,...j->...i", kirsch(places, 1.0, 1.0), normals))
    fixed = np.zeros(grid.points.shape, dtype=bool)
    fixed[grid.side(3)[0, 0]] = True  # no shift
    fixed[grid.side(3)[-1, -1], 1] = True  # no turn
    found = solve_symmetric(matrix(mesh, MATERIAL), load, fixed, np.zeros(load.shape))
    stress = MATERIAL.stress(mesh.nodal_gradients(found))
    beside = np.argmin(np.linalg.norm(grid.points - [1.0, 0.0], axis=1))
    assert np.allclose(grid.points[beside], [1.0, 0.0], atol=1e-12)
    exact = kirsch(grid.points, 1.0, 1.0)
    return float(stress[beside, 1, 1]), float(np.sqrt(np.mean((stress - exact) ** 2)))


def test_kirsch():
    found = np.array([around_a_hole(8 * count, 4 * count + 1) for count in (4, 8, 16)])
    orders = np.log2(found[:-1, 1] / found[1:, 1])
    print(f"stress concentration {found[:, 0].tolist()}, mean error {found[:, 1].tolist()}, orders {orders.tolist()}")
    assert abs(found[-1, 0] / 3 - 1) < 0.01
    assert orders[-1] > 1.85


def sheet_without_a_void(count: int) -> np.ndarray:
    """Stress in the middle of the cell when there is no void, clamped below and pulled above by 1."""
    nodes = 2 * count + 1
    points = tensor_grid(np.linspace(0, 1, nodes), np.linspace(0, 1, nodes))
    first, inside = np.arange(0, nodes - 1, 2), np.arange(3)
    cells = (first[:, None] * nodes + first).ravel()[:, None] + (inside[:, None] * nodes + inside).ravel()
    mesh = Mesh(quadrilateral(2), points, cells)
    top = (np.arange(nodes) * nodes + nodes - 1)[::-1]
    load = mesh.edge_load(top[first[:, None] + inside], lambda places, normals: normals)
    fixed = np.repeat(points[:, 1:] == 0, 2, axis=1)
    found = solve_symmetric(matrix(mesh, PlaneStress()), load, fixed, np.zeros(load.shape))
    return PlaneStress().stress(mesh.nodal_gradients(found))[nodes**2 // 2]


def test_a_small_hole_in_the_pulled_cell_triples_the_stress():
    """The cell as it is generated. Kirsch: 3σ_y − σ_x of the sheet without a hole, where the clamp leaves σ_y = 1.033."""
    grid = o_grid(lambda angles: np.full(len(angles), 0.025), 128, 97, grading=40.0)
    displacement, stress = pulled_cell(grid, PlaneStress(), 100.0)
    rays = stress.reshape(128, 97, 2, 2)
    right = 16  # the ray along +x
    assert np.allclose(grid.points.reshape(128, 97, 2)[right, 0], [0.525, 0.5])
    concentration = rays[right, 0, 1, 1] / 100
    alone = sheet_without_a_void(16)
    expected = 3 * alone[1, 1] - alone[0, 0]
    print(f"stress concentration {concentration:.4f}, expected {expected:.4f} but for the finite size")
    assert abs(concentration / 3 - 1) < 0.05
    assert abs(concentration / expected - 1) < 0.015
    assert np.allclose(displacement[grid.side(3)], 0)
    assert displacement[grid.side(1), 1].min() > 50


# ------------------------------------------------------------------------------------------------------------ random voids


def test_forces_balance_and_the_void_carries_none():
    """The clamp answers with the whole pull; σ·n on the void falls with refinement."""
    void = Elasticity().void(np.random.default_rng(0))
    material, leaks = PlaneStress(), []
    for fineness in (1, 2):
        grid = o_grid(void, 144 * fineness, 26 * fineness + 1)
        displacement, stress = pulled_cell(grid, material, 100.0)
        mesh = Mesh(quadrilateral(2), grid.points, grid.cells(2))
        reaction = (matrix(mesh, material) @ displacement.ravel()).reshape(-1, 2)[np.unique(grid.side(3))]
        assert reaction.sum(axis=0) == pytest.approx([0.0, -100.0], abs=1e-8)
        ring = grid.points[:: grid.outward]
        tangent = np.roll(ring, -1, axis=0) - np.roll(ring, 1, axis=0)
        normal = np.stack([tangent[:, 1], -tangent[:, 0]], axis=1) / np.linalg.norm(tangent, axis=1, keepdims=True)
        leaks.append(np.sqrt(np.mean(np.einsum("nij,nj->ni", stress[:: grid.outward], normal) ** 2)))
    print(f"traction left on the void {leaks}")
    assert leaks[0] < 10
    assert leaks[1] < 0.4 * leaks[0]


def test_the_mirrored_void_has_the_mirrored_stress():
    """φ ↦ π − φ turns a_k into (−1)^k a_k and b_k into −(−1)^k b_k."""
    void = SMALL.void(np.random.default_rng(2))
    sign = (-1.0) ** np.arange(1, 6)
    mirror = Void(void.coefficients * np.concatenate([sign, -sign]), void.scales, void.radii)
    pairs = []
    for shape in (void, mirror):
        grid, _ = SMALL.grid(shape)
        pairs.append((grid, von_mises(pulled_cell(grid, PlaneStress(), 1.0)[1])))
    (grid, here), (other, there) = pairs
    rays, outward = grid.around, grid.outward
    flipped = ((3 * rays // 4 - np.arange(rays)) % rays)[:, None] * outward + np.arange(outward)
    assert np.allclose(other.points[flipped.ravel()] * [-1, 1] + [1, 0], grid.points, atol=1e-14)
    assert np.allclose(there[flipped.ravel()], here, rtol=1e-9)


def test_the_shape_is_the_gaussian_that_it_claims():
    """Var g(φ) = (σ²/π) Σ_{k=1..5} 1/(k² + τ²), at every angle; radii stay between the two."""
    problem, angles = Elasticity(), np.array([0.3, 1.9, 4.0])
    radii = np.stack([problem.void(np.random.default_rng(seed))(angles) for seed in range(4000)])
    assert radii.min() > 0.2
    assert radii.max() < 0.4
    field = np.log(0.2 / (radii - 0.2) - 1)
    expected = 16 / np.pi * sum(1 / (k**2 + 9) for k in range(1, 6))
    assert np.allclose(field.var(axis=0), expected, rtol=0.1)
    assert np.abs(field.mean(axis=0)).max() < 0.1


def test_no_element_is_inverted():
    """At the nodes of the quadratic elements, where a bent one fails first."""
    problem = Elasticity(elements_around=36)
    element = quadrilateral(2)
    worst = 1.0
    for seed in range(150):
        grid, _ = problem.grid(problem.void(np.random.default_rng(seed)))
        _, area = Mesh(element, grid.points, grid.cells(2)).gradients(element.shape.nodes)
        worst = min(worst, float((area.min(axis=1) / area.max(axis=1)).min()))
    print(f"smallest area over largest in one element: {worst:.3f}")
    assert worst > 0.1


# ------------------------------------------------------------------------------------------------------------ the data set


def test_a_sample_is_stored_as_the_published_file_is_read(tmp_path):
    """The same name, field, features, box and parameters: a surrogate of one runs on the other."""
    write_elasticity(tmp_path)
    theirs = Published(path=tmp_path, train=5, test=1).source().description
    ours = Elasticity().description()
    for name in ("name", "features", "targets", "grid_shape", "points", "box"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert [field.name for field in ours.fields] == [field.name for field in theirs.fields]
    assert np.array_equal(ours.times, theirs.times)
    assert [name for name in ours.parameters if name.startswith("theta")] == [f"theta_{i}" for i in range(10)]
    assert [name for name in ours.parameters if name.startswith("radius")] == [f"radius_{i}" for i in range(42)]


def test_a_default_sample():
    (sample,) = Elasticity().solve(draws(0))
    assert sample.points is not None
    assert sample.cells is not None
    assert sample.parameters is not None
    assert sample.fields.shape == (1, 972, 1)
    assert sample.fields.dtype == np.float32
    assert sample.cells.shape == (936, 4)
    assert sample.fields.min() > 0
    assert 100 < sample.fields.mean() < 300
    assert np.array_equal(sample.features, sample.points)
    assert np.bincount(sample.node_type).tolist() == [972 - 72, 36, 10, 10, 16]
    assert sample.parameters[0] == pytest.approx(sample.parameters[RADII - 1])
    along = sample.points.reshape(36, 27, 2)[:, 0] - 0.5  # the void as stored, against the radii as stored
    angles = np.arctan2(along[:, 1], along[:, 0]) % (2 * np.pi)
    radii = np.interp(angles, np.linspace(0, 2 * np.pi, RADII), sample.parameters[:RADII])
    assert np.abs(radii - np.hypot(*along.T)).max() < 0.01


def test_fewer_stored_points_are_the_same_solution():
    (many,) = Elasticity(elements_around=72).solve(draws(7))
    (few,) = Elasticity(around=12, outward=14, elements_around=72).solve(draws(7))
    assert many.points is not None
    assert np.array_equal(many.points.reshape(36, 27, 2)[::3, ::2].reshape(-1, 2), few.points)
    assert np.array_equal(many.fields.reshape(36, 27)[::3, ::2].ravel(), few.fields.ravel())


def test_stress_is_in_proportion_to_the_pull():
    (one,), (two,) = ([*problem.solve(draws(1))] for problem in (SMALL, SMALL.model_copy(update={"traction": 250.0})))
    assert np.allclose(two.fields, 2.5 * one.fields, rtol=1e-6)


def test_a_file_is_checked_and_does_not_depend_on_the_number_of_samples(tmp_path):
    few = generate(SMALL, tmp_path / "few.h5", samples=10, seed=3, processes=1)
    more = generate(SMALL, tmp_path / "more.h5", samples=12, seed=3, processes=1)
    findings = list(check(few))
    assert [finding.subject for finding in findings if finding.level != "good"] == ["split"]  # there are few trajectories
    assert any(finding.subject == "cells" for finding in findings)
    for index in range(10):
        one, other = few.trajectory(index), more.trajectory(index)
        assert np.array_equal(one.fields, other.fields)
        assert np.array_equal(one.points, other.points)
    assert not np.array_equal(few.trajectory(0).fields, few.trajectory(1).fields)


def test_wrong_options_are_named():
    with pytest.raises(ConfigError, match=r"around.*multiple of 4.*got 10"):
        Elasticity.model_validate({"around": 10})
    with pytest.raises(ConfigError, match=r"smallest_radius.*less than.*0\.3.*got 0\.35"):
        Elasticity(smallest_radius=0.35, largest_radius=0.3)
    with pytest.raises(ConfigError, match="Did you mean 'traction'"):
        Elasticity.model_validate({"tracton": 8})
