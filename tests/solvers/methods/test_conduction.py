"""Heat conduction: an exact mode, a manufactured source that moves around a hole, orders in space and time, and heat kept."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.geometry import cell_centers, tensor_grid
from calm_pde.solvers.mesh.triangles import TriangleMesh
from calm_pde.solvers.methods.conduction import Boundaries, Conduction
from tests.solvers.plates import HEIGHT, LENGTH, MIDDLE, RADIUS, MovingBump, marched, relative_l2, ring, with_hole, without_hole

CONDUCTIVITY, CAPACITY = 0.7, 1.3


def nothing(places: np.ndarray, time: float) -> np.ndarray:
    return np.zeros(len(places))


def mode(points: np.ndarray, time: float) -> np.ndarray:
    """sin(πx/2L) cos(πy/H) e^{−αλt}, λ = π²(1/4L² + 1/H²): zero at the wall, level at the other sides."""
    decay = np.exp(-CONDUCTIVITY / CAPACITY * np.pi**2 * (0.25 / LENGTH**2 + 1 / HEIGHT**2) * time)
    return decay * np.sin(np.pi * points[:, 0] / (2 * LENGTH)) * np.cos(np.pi * points[:, 1] / HEIGHT)


def decaying(mesh: TriangleMesh) -> Conduction:
    return Conduction(mesh, CONDUCTIVITY, CAPACITY, nothing, Boundaries(held=("wall",)))


def bump(mesh: TriangleMesh) -> tuple[Conduction, MovingBump]:
    """The manufactured solution: given on the outer sides, its source moving, the hole insulated."""
    exact = MovingBump(CONDUCTIVITY, CAPACITY)
    boundaries = Boundaries(held=("wall", "rest"), temperature=exact)
    return Conduction(mesh, CONDUCTIVITY, CAPACITY, exact.source, boundaries), exact


def orders(errors: list[float]) -> np.ndarray:
    return np.log2(np.divide(errors[:-1], errors[1:]))


def bump_errors(scales: tuple[float, ...]) -> tuple[list[float], list[int]]:
    errors, points = [], []
    for scale in scales:
        mesh = with_hole(scale)
        conduction, exact = bump(mesh)
        places = mesh.points
        marched(conduction, exact(places, 0.0), 1.0, 100)
        errors.append(relative_l2(conduction, exact(places, 1.0)))
        points.append(len(places))
    return errors, points


def test_a_decaying_mode_at_second_order_in_space():
    errors = []
    for count in (8, 16, 32):
        mesh = without_hole(count)
        errors.append(relative_l2(marched(decaying(mesh), mode(mesh.points, 0.0), 0.3, 100), mode(mesh.points, 0.3)))
    print(f"relative errors on 8, 16, 32 squares across {errors}, orders {orders(errors)}")
    assert np.abs(orders(errors) - 2).max() < 0.1
    assert errors[-1] < 2e-3


def test_a_moving_source_around_a_hole_at_second_order_in_space():
    """The source, the insulated round hole, and Dirichlet values that change in time, all at once."""
    errors, points = bump_errors((1.0, 0.5))
    print(f"relative errors on {points} points {errors}, orders {orders(errors)}")
    assert np.abs(orders(errors) - 2).max() < 0.3
    assert errors[-1] < 0.01


@pytest.mark.slow
def test_a_moving_source_around_a_hole_on_finer_meshes():
    errors, points = bump_errors((1.0, 0.5, 0.25))
    print(f"relative errors on {points} points {errors}, orders {orders(errors)}")
    assert np.abs(orders(errors) - 2).max() < 0.25
    assert errors[-1] < 2e-3


def test_second_order_in_time():
    """Against 640 steps on the same mesh, where source and wall change in time."""
    mesh = with_hole(1.0)
    ends = []
    for steps in (10, 20, 40, 640):
        conduction, exact = bump(mesh)
        ends.append(marched(conduction, exact(mesh.points, 0.0), 1.0, steps).temperature)
    errors = [float(np.linalg.norm(end - ends[-1]) / np.linalg.norm(ends[-1])) for end in ends[:-1]]
    print(f"relative errors with 10, 20, 40 steps {errors}, orders {orders(errors)}")
    assert np.abs(orders(errors) - 2).max() < 0.15


def test_heat_is_kept_to_rounding():
    """Insulated all around: no heat is lost without a source, and with one all that it gave is there."""
    mesh = with_hole(1.0)
    start = np.random.default_rng(0).normal(size=len(mesh.points))
    alone = Conduction(mesh, CONDUCTIVITY, CAPACITY, nothing, Boundaries())
    alone.start(start)
    before = alone.heat
    assert abs(marched(alone, start, 2.0, 50).heat - before) < 1e-13 * (alone.mass @ np.abs(start))
    assert np.ptp(alone.temperature) < 0.1 * np.ptp(start)

    spot = Conduction(mesh, CONDUCTIVITY, CAPACITY, lambda places, time: np.exp(-np.square(places[:, 0] - 0.5)), Boundaries())
    power = spot.load(0.0).sum()
    marched(spot, start, 2.0, 50)
    assert spot.heat - before == pytest.approx(2.0 * power, rel=1e-13)
    grid = tensor_grid(LENGTH * cell_centers(400), HEIGHT * cell_centers(200))
    plate = np.linalg.norm(grid - MIDDLE, axis=1) > RADIUS
    assert power == pytest.approx(LENGTH * HEIGHT * (plate * np.exp(-np.square(grid[:, 0] - 0.5))).mean(), rel=5e-3)


def test_temperatures_stay_in_range():
    """A cold wall and a hot plate with a jump between them: short steps never leave the range, long ones hardly."""
    mesh = with_hole(0.7)
    for step, beyond in ((1e-3, 1e-12), (1e-2, 0.05), (1.0, 0.1)):
        conduction = decaying(mesh)
        conduction.start(np.ones(len(mesh.points)))
        for _ in range(5):
            conduction.step(step)
            assert conduction.temperature.max() < 1 + beyond
            assert conduction.temperature.min() > -beyond
    assert np.abs(conduction.temperature).max() < 0.4


def test_a_ring_that_gives_its_heat_to_the_air():
    """Steady: T = A + B ln r between T = 1 outside and k ∂T/∂r = h(T − 0.2) inside, at second order."""
    transfer, ambient, errors = 0.9, 0.2, []
    for scale in (1.0, 0.5):
        mesh = ring(scale)
        boundaries = Boundaries(
            held=("outer",),
            temperature=lambda places, time: np.ones(len(places)),
            transfer={"inner": transfer},
            ambient=ambient,
        )
        conduction = Conduction(mesh, CONDUCTIVITY, CAPACITY, nothing, boundaries)
        marched(conduction, np.ones(len(mesh.points)), 20.0, 40)
        slope = (1 - ambient) / (CONDUCTIVITY / (0.5 * transfer) - np.log(0.5))
        errors.append(relative_l2(conduction, 1 + slope * np.log(np.linalg.norm(mesh.points, axis=1))))
    print(f"relative errors with edges of 0.1 and 0.05 {errors}, orders {orders(errors)}")
    assert orders(errors)[0] > 1.7
    assert errors[-1] < 1e-3


def test_a_linear_temperature_is_exact():
    """Given all around, T = 2 + 3x − y stays what it is, and its heat is the exact integral."""
    mesh = with_hole(1.0)
    linear = 2 + mesh.points @ [3.0, -1.0]
    boundaries = Boundaries(held=("wall", "rest", "hole"), temperature=lambda places, time: 2 + places @ [3.0, -1.0])
    conduction = Conduction(mesh, CONDUCTIVITY, CAPACITY, nothing, boundaries)
    assert np.abs(marched(conduction, linear, 1.0, 7).temperature - linear).max() < 1e-13
    third = linear[mesh.cells].mean(axis=1)
    a, b, c = (mesh.points[mesh.cells[:, corner]] for corner in range(3))
    area = 0.5 * np.abs((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])
    assert conduction.heat == pytest.approx(CAPACITY * area @ third, rel=1e-13)


def test_steps_of_other_lengths_have_factors_of_their_own():
    mesh = with_hole(1.0)
    uneven, _ = bump(mesh)
    uneven.start(mode(mesh.points, 0.0))
    for length in (0.01, 0.02, 0.01):
        fresh, _ = bump(mesh)
        fresh.start(uneven.temperature, uneven.time)
        fresh.step(length)
        uneven.step(length)
        assert np.array_equal(uneven.temperature, fresh.temperature)
    assert uneven.time == pytest.approx(0.04)
