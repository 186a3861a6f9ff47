"""Burgers: the Cole–Hopf solution, shocks that do not ring, a conserved mean."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.geometry import cell_centers
from calm_pde.solvers.methods.random_fields import few_sines
from calm_pde.solvers.problems.burgers import Burgers, BurgersLaw
from tests.solvers.exact import SinesOfBurgers
from tests.solvers.methods.test_finite_volume import solved


def errors(diffusivity: float, count: int, times: np.ndarray, stride: int) -> np.ndarray:
    """Of every `stride`-th cell at each time after the first, (time, cell)."""
    exact, places = SinesOfBurgers(diffusivity), cell_centers(count)
    states, _ = solved(BurgersLaw(diffusivity), exact.initial(places)[None, None], 1 / count, times)
    return np.stack([states[0, frame, 0, ::stride] - exact(places[::stride], times[frame]) for frame in range(1, len(times))])


@pytest.mark.parametrize(
    ("diffusivity", "times", "resolutions"),
    [(0.01, (0.0, 0.3, 0.6), (128, 256, 512)), (1e-3 / np.pi, (0.0, 0.1), (256, 512, 1024))],
    ids=["wide front", "before the shock"],
)
def test_cole_hopf_at_second_order(diffusivity, times, resolutions):
    found = [np.abs(errors(diffusivity, count, np.array(times), count // 64)).mean(axis=1) for count in resolutions]
    orders = np.log2(np.divide(found[:-1], found[1:]))
    print(f"mean errors by resolution and time {found}; orders {orders.tolist()}")
    assert orders.min() > 1.8, orders
    assert found[-1].max() < 2e-5


@pytest.mark.slow
def test_cole_hopf_through_the_shock():
    """The default viscosity at 1024 cells, every cell; a front is about one cell wide."""
    times = np.array([0.0, 0.1, 0.5, 2.0])
    found = errors(1e-3 / np.pi, 1024, times, 1)
    exact = SinesOfBurgers(1e-3 / np.pi)
    for time, error in zip(times[1:], found, strict=True):
        relative = np.linalg.norm(error) / np.linalg.norm(exact(cell_centers(1024), time))
        print(f"t={time}: max {np.abs(error).max():.2e}, mean {np.abs(error).mean():.2e}, relative {relative:.2e}")
    assert (np.abs(found).max(axis=1) < [1e-4, 0.03, 0.01]).all()
    assert (np.abs(found).mean(axis=1) < [1e-5, 2e-4, 1e-4]).all()


@pytest.mark.parametrize("viscosity", [1e-3, 0.0])
def test_shocks_do_not_ring(viscosity):
    """Total variation never grows, no value leaves the range of the one before, the mean stays."""
    places = cell_centers(512)
    initial = np.stack([few_sines(np.random.default_rng(seed), places) for seed in range(12)])
    initial[0] = np.where((places > 0.3) & (places < 0.6), 1.0, -0.5)
    times = np.linspace(0.0, 0.4, 81)
    states, _ = solved(BurgersLaw(viscosity / np.pi), initial[:, None], 1 / 512, times)
    values = states[:, :, 0]
    variation = np.abs(np.roll(values, 1, axis=-1) - values).sum(axis=-1)
    assert (np.diff(variation, axis=1) <= 1e-12 * variation[:, :1]).all()
    assert (np.diff(values.max(axis=-1), axis=1) <= 1e-14).all()
    assert (np.diff(values.min(axis=-1), axis=1) >= -1e-14).all()
    drift = np.abs(values.mean(axis=-1) - values.mean(axis=-1)[:, :1]).max()
    print(f"drift of the mean {drift:.2e}")
    assert drift < 1e-12
    assert variation[:, -1].min() < 0.9 * variation[:, 0].max()


def test_a_shock_moves_at_the_mean_of_its_sides():
    """u = 1 left of the front, 0 right of it: Rankine–Hugoniot, x = 0.3 + t/2, and a fan u = (x − 0.1)/t behind."""
    places = cell_centers(400)
    initial = np.where((places > 0.1) & (places < 0.3), 1.0, 0.0)
    states, _ = solved(BurgersLaw(0.0), initial[None, None], 1 / 400, np.array([0.0, 0.3]))
    exact = np.where((places > 0.1) & (places < 0.45), np.minimum((places - 0.1) / 0.3, 1.0), 0.0)
    assert np.abs(states[0, 1, 0] - exact).mean() < 2e-3


def test_few_points_are_averages_of_the_solved_cells():
    (fine,) = Burgers(points=1024, frames=3, duration=0.05).solve([np.random.default_rng(3)])
    (coarse,) = Burgers(points=64, frames=3, duration=0.05).solve([np.random.default_rng(3)])
    assert np.allclose(fine.fields.reshape(3, 64, 16, 1).mean(axis=2), coarse.fields, atol=1e-6)


def test_points_that_do_not_divide_1024_are_solved_on_a_multiple():
    (trajectory,) = Burgers(points=100, frames=2, duration=0.01).solve([np.random.default_rng(0)])
    assert trajectory.fields.shape == (2, 100, 1)
    expected = few_sines(np.random.default_rng(0), cell_centers(1100)).reshape(100, 11).mean(axis=1)
    assert np.allclose(trajectory.fields[0, :, 0], expected, atol=1e-6)


def test_the_seam_of_the_published_data_is_an_option():
    (seam,) = Burgers(frames=2, duration=1e-3, exactly_periodic=False).solve([np.random.default_rng(0)])
    (smooth,) = Burgers(frames=2, duration=1e-3).solve([np.random.default_rng(0)])
    assert 0 < np.abs(seam.fields[0] - smooth.fields[0]).max() < 0.1
