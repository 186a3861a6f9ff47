"""Incompressible flow: Poiseuille exactly, Taylor–Green at the claimed orders, forces in balance."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.errors import InputError
from calm_pde.solvers.methods.incompressible import Flow, bicgstab
from tests.solvers.methods.test_taylor_hood import box_mesh

HEIGHT, LENGTH, PEAK = 0.5, 1.0, 2.0


def parabola(places: np.ndarray, _: float = 0.0) -> np.ndarray:
    y = places[:, 1]
    return np.stack([4 * PEAK * y * (HEIGHT - y) / HEIGHT**2, 0 * y], axis=1)


def poiseuille_pressure(points: np.ndarray, viscosity: float) -> np.ndarray:
    return 8 * viscosity * PEAK / HEIGHT**2 * (LENGTH - points[:, 0])


def poiseuille(viscosity: float) -> Flow:
    return Flow(box_mesh(6, 4, LENGTH, HEIGHT), viscosity, parabola, outlets=("right",))


class TaylorGreen:
    """u = (sin x cos y, −cos x sin y) e^{−2νt}, p = ¼(cos 2x + cos 2y) e^{−4νt} on [0, 2] × [0, 1.5]."""

    def __init__(self, cells: int, viscosity: float) -> None:
        self.viscosity = viscosity
        self.flow = Flow(box_mesh(cells, cells, 2.0, 1.5, shake=0.15), viscosity, self.velocity, outlets=())
        points = self.flow.space.mesh.points
        self.flow.start(self.velocity(self.flow.space.points, 0.0), self.pressure(points, 0.0) - self.pressure(points, 0.0)[0])

    def velocity(self, places: np.ndarray, time: float) -> np.ndarray:
        x, y = places.T
        field = np.stack([np.sin(x) * np.cos(y), -np.cos(x) * np.sin(y)], axis=1)
        return field * np.exp(-2 * self.viscosity * time)

    def pressure(self, places: np.ndarray, time: float) -> np.ndarray:
        return 0.25 * np.cos(2 * places).sum(axis=1) * np.exp(-4 * self.viscosity * time)

    def errors(self) -> tuple[float, float]:
        """Of velocity in L2 and of pressure in the mean square, each relative, the pressure up to a constant."""
        flow, space = self.flow, self.flow.space
        exact = self.velocity(space.points, flow.time)
        of_velocity = space.norm(flow.velocity - exact) / space.norm(exact)
        wanted = self.pressure(space.mesh.points, flow.time)
        return of_velocity, float(np.std(flow.pressure - wanted) / np.std(wanted))


def test_poiseuille_stays_exactly():
    flow = poiseuille(0.01)
    points = flow.space.mesh.points
    flow.start(parabola(flow.space.points), poiseuille_pressure(points, 0.01))
    for step in (0.1, 0.1, 0.05, 0.2, 0.1):
        flow.step(step)
    assert np.abs(flow.velocity - parabola(flow.space.points)).max() < 1e-7 * PEAK
    assert np.abs(flow.pressure - poiseuille_pressure(points, 0.01)).max() < 1e-6
    assert flow.time == pytest.approx(0.55)


def test_poiseuille_is_reached_from_rest():
    """A viscous channel that starts at rest, entered by the parabola, is filled by it."""
    flow = poiseuille(1.0)
    flow.start(np.zeros((len(flow.space.points), 2)))
    for _ in range(160):
        flow.step(0.005)
    assert np.abs(flow.velocity - parabola(flow.space.points)).max() < 1e-5 * PEAK
    wanted = poiseuille_pressure(flow.space.mesh.points, 1.0)
    assert np.abs(flow.pressure - wanted).max() < 1e-4 * wanted.max()


def test_the_first_step_has_a_pressure_already():
    flow = poiseuille(0.1)
    flow.start(parabola(flow.space.points))
    flow.step(0.001)
    wanted = poiseuille_pressure(flow.space.mesh.points, 0.1)
    error = np.abs(flow.pressure - wanted).max() / wanted.max()
    print(f"relative error of the pressure after one step {error:.2e}")
    assert error < 0.02


def test_forces_balance_the_drop_of_pressure():
    """Friction on both walls is Δp·height; a sixth of the pressure on each inflow edge at a corner goes to the corner."""
    viscosity = 0.01
    flow = poiseuille(viscosity)
    flow.start(parabola(flow.space.points), poiseuille_pressure(flow.space.mesh.points, viscosity))
    flow.step(0.1)
    along, across = flow.force("wall")
    drop = 8 * viscosity * PEAK / HEIGHT**2 * LENGTH
    assert along == pytest.approx(drop * HEIGHT - 2 * drop * (HEIGHT / 4) / 6, rel=1e-5)
    assert abs(across) < 1e-6


def test_taylor_green_at_third_order_in_space():
    found = []
    for cells in (8, 16, 32):
        case = TaylorGreen(cells, 0.05)
        for _ in range(20):
            case.flow.step(0.01)
        found.append(case.errors())
    orders = np.log2(np.divide(found[:-1], found[1:]))
    print(f"errors of velocity and pressure by cells {found}; orders {orders.tolist()}")
    assert orders[:, 0].min() > 2.7
    assert orders[:, 1].min() > 1.7
    assert found[-1][0] < 3e-5


@pytest.mark.parametrize("pattern", [(1.0,), (0.8, 1.2)], ids=["equal steps", "unequal steps"])
def test_taylor_green_at_second_order_in_time(pattern):
    found = []
    for steps in (8, 16, 32):
        case = TaylorGreen(12, 0.5)
        for index in range(steps):
            case.flow.step(pattern[index % len(pattern)] / steps)
        found.append(case.errors())
    orders = np.log2(np.divide(found[:-1], found[1:]))
    print(f"errors of velocity and pressure by steps {found}; orders {orders.tolist()}")
    assert orders[:, 0].min() > 1.7


def test_the_start_is_free_of_divergence():
    """Weakly, for every pressure that the projection knows; the given boundary values stay."""
    flow = poiseuille(0.01)
    x, y = flow.space.points.T
    flow.start(np.stack([x * (LENGTH - x), y], axis=1))
    inside = flow.space.weak_divergence(flow.velocity)[flow.space.mesh.points[:, 0] < LENGTH]
    before = flow.space.weak_divergence(np.stack([x * (LENGTH - x), y], axis=1))
    assert np.abs(inside).max() < 0.02 * np.abs(before).max()
    assert np.array_equal(flow.velocity[flow.fixed], parabola(flow.space.points[flow.fixed]))


def test_bicgstab_solves_all_columns():
    draw = np.random.default_rng(0)
    matrix = np.eye(30) + 0.1 * draw.normal(size=(30, 30))
    right = draw.normal(size=(30, 2))
    right[:, 1] *= 1e-9  # a column that is solved before it begins
    solution, iterations = bicgstab(lambda x: matrix @ x, right, lambda x: x, 1e-10)
    assert np.allclose(matrix @ solution, right, atol=1e-9)
    assert 1 < iterations < 30


def test_a_step_that_cannot_be_solved_is_named():
    singular = np.diag([1.0, 0.0])
    with pytest.raises(InputError, match="Take shorter steps"):
        bicgstab(lambda x: singular @ x, np.ones((2, 1)), lambda x: x, 1e-10)
