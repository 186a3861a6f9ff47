"""Vorticity: exact decay, balances of energy and enstrophy, orders in time and space, and its random start."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.errors import ConfigError
from calm_pde.solvers.methods.random_fields import gaussian_modes
from calm_pde.solvers.methods.spectral import Torus, evolve
from calm_pde.solvers.problems.navier_stokes import NavierStokes, VorticityTransport, forcing_modes, initial_variance
from tests.solvers.trigonometric import interpolated

VISCOSITY = 1e-3


def grid(torus: Torus) -> list[np.ndarray]:
    return list(np.meshgrid(*[np.arange(torus.resolution) / torus.resolution] * 2, indexing="ij"))


def smooth_start(torus: Torus) -> np.ndarray:
    x, y = grid(torus)
    return torus.modes(3 * np.sin(2 * np.pi * x + 0.3) * np.cos(4 * np.pi * y) + 2 * np.cos(2 * np.pi * (x + y)))


def run(torus: Torus, start: np.ndarray, times: np.ndarray, step: float, forced: bool = True) -> list[np.ndarray]:
    transport = VorticityTransport(torus, forcing_modes(torus) if forced else None)
    return list(evolve(start, VISCOSITY * torus.laplacian, transport, 0.0, times, step))


def mean_product(torus: Torus, first: np.ndarray, second: np.ndarray) -> float:
    return float((torus.values(first) * torus.values(second)).mean())


def test_taylor_green_decays_exactly():
    """ω = 2 cos 4πx cos 4πy carries itself nowhere: ω(t) = ω(0) e^{−32π²νt}."""
    torus = Torus(32, 2)
    x, y = grid(torus)
    start = 2 * np.cos(4 * np.pi * x) * np.cos(4 * np.pi * y)
    (end,) = run(torus, torus.modes(start), np.array([2.0]), 0.02, forced=False)
    error = np.abs(torus.values(end) - start * np.exp(-32 * np.pi**2 * VISCOSITY * 2.0)).max()
    print(f"largest error {error:.2e}")
    assert error < 1e-13


def test_transport_is_the_velocity_times_the_gradient():
    """Against u = ψ_y, v = −ψ_x written out for ω = sin 2πx + 4 cos 4πy, ψ = sin 2πx/4π² + cos 4πy/4π²."""
    torus = Torus(32, 2)
    x, y = grid(torus)
    change, _ = VorticityTransport(torus)(torus.modes(np.sin(2 * np.pi * x) + 4 * np.cos(4 * np.pi * y)))
    u, v = -np.sin(4 * np.pi * y) / np.pi, -np.cos(2 * np.pi * x) / (2 * np.pi)
    expected = -(u * 2 * np.pi * np.cos(2 * np.pi * x) - v * 16 * np.pi * np.sin(4 * np.pi * y))
    assert np.allclose(torus.values(change), expected, atol=1e-12)


def test_the_forcing_on_the_grid():
    torus = Torus(16, 2)
    x, y = grid(torus)
    expected = 0.1 * (np.sin(2 * np.pi * (x + y)) + np.cos(2 * np.pi * (x + y)))
    assert np.allclose(torus.values(forcing_modes(torus)), expected, atol=1e-15)


def test_transport_keeps_energy_and_enstrophy():
    """⟨ω, u·∇ω⟩ = ⟨ψ, u·∇ω⟩ = 0, for a field rough up to the last mode."""
    torus = Torus(48, 2)
    vorticity = gaussian_modes(np.random.default_rng(0), torus.highest, 2, lambda squared: squared**-1.0)
    change, _ = VorticityTransport(torus)(vorticity)
    stream = vorticity / np.where(torus.laplacian == 0, 1.0, -torus.laplacian)
    scale = np.sqrt(mean_product(torus, change, change) * mean_product(torus, vorticity, vorticity))
    assert abs(mean_product(torus, vorticity, change)) < 1e-13 * scale
    assert abs(mean_product(torus, stream, change)) < 1e-13 * scale


def test_balance_of_energy_and_enstrophy():
    """½⟨|u|²⟩ grows by ∫⟨fψ⟩ − ν⟨ω²⟩, ½⟨ω²⟩ by ∫⟨fω⟩ − ν⟨|∇ω|²⟩ (Simpson's rule over the frames)."""
    torus, times = Torus(32, 2), np.linspace(0.0, 1.0, 101)
    states, forcing = run(torus, smooth_start(torus), times, 0.01), forcing_modes(torus)
    weights = np.array([1, *[4, 2] * 49, 4, 1]) / 300
    inverse = -1.0 / np.where(torus.laplacian == 0, -1.0, torus.laplacian)
    for partner in (inverse, np.ones_like(inverse)):  # of ω: ψ for the energy, ω itself for the enstrophy
        amount = [0.5 * mean_product(torus, state, partner * state) for state in states]
        growth = [
            mean_product(torus, forcing, partner * state)
            + VISCOSITY * mean_product(torus, state, partner * torus.laplacian * state)
            for state in states
        ]
        assert abs(amount[-1] - amount[0]) > 1e-4
        assert abs(amount[-1] - amount[0] - weights @ growth) < 1e-7 * abs(amount[-1] - amount[0])


def test_fourth_order_in_time():
    torus = Torus(32, 2)
    ends = [run(torus, smooth_start(torus), np.array([0.8]), step)[0] for step in (0.04, 0.02, 0.01, 0.00125)]
    errors = [np.abs(torus.values(end - ends[-1])).max() for end in ends[:-1]]
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    print(f"errors {errors}, orders {orders}")
    assert np.abs(orders - 4).max() < 0.3, orders


def test_spectral_accuracy_in_space():
    """Twice the points divide the error by ever more: no power of the resolution."""
    reference = Torus(128, 2)
    (exact,) = run(reference, smooth_start(reference), np.array([0.5]), 0.01)
    errors = []
    for resolution in (16, 32, 64):
        torus = Torus(resolution, 2)
        (end,) = run(torus, smooth_start(torus), np.array([0.5]), 0.01)
        stride = 128 // resolution
        errors.append(np.abs(torus.values(end) - reference.values(exact)[::stride, ::stride]).max())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    print(f"errors {errors}")
    assert orders[1] > orders[0] + 3 > 7, orders
    assert errors[-1] < 1e-6


def test_the_random_start_has_its_variance():
    """E|ω̂_k|² = 7³(4π²|k|² + 49)^{−2.5}; the field's variance is their sum."""
    torus, count = Torus(16, 2), 2000
    start = np.stack([gaussian_modes(np.random.default_rng(seed), torus.highest, 2, initial_variance) for seed in range(count)])
    found = (np.abs(start) ** 2).mean(axis=0)
    squared = -torus.laplacian / (4 * np.pi**2)
    expected = np.where(squared == 0, 0.0, initial_variance(squared))
    assert np.all(np.abs(found - expected) <= 5 / np.sqrt(count) * expected + 1e-30)
    assert found[1, 0] == pytest.approx(343 * 88.478**-2.5, rel=0.12)
    both_halves = expected.sum() + expected[:, 1:].sum()
    assert torus.values(start).var() == pytest.approx(both_halves, rel=0.05)


def test_the_start_and_the_flow_do_not_depend_on_the_resolution():
    settings = {"points": 16, "viscosity": VISCOSITY, "first_time": 0.0, "frames": 3, "spacing": 0.2}
    coarse, fine = (
        next(NavierStokes(resolution=resolution, **settings).solve([np.random.default_rng(5)])) for resolution in (48, 96)
    )
    difference = np.abs(coarse.fields - fine.fields).max(axis=(1, 2))
    assert (difference < np.array([0.05, 2e-3, 2e-3]) * np.abs(fine.fields).max()).all()  # viscosity takes what only one has


def test_stored_points_are_a_part_of_the_solved_grid():
    problem = NavierStokes(points=16, resolution=48, first_time=0.0, frames=2, spacing=0.1)
    (trajectory,) = problem.solve([np.random.default_rng(5)])
    torus = Torus(48, 2)
    start = torus.values(gaussian_modes(np.random.default_rng(5), torus.highest, 2, initial_variance))
    points = problem.description().points
    assert points is not None
    assert np.allclose(interpolated(start, points), trajectory.fields[0, :, 0], atol=1e-6)


def test_grids_that_do_not_fit_are_refused():
    for resolution in (64, 96, 200):
        with pytest.raises(ConfigError, match=r"expected a multiple of points \(64\).*Set resolution=128"):
            NavierStokes(resolution=resolution)


@pytest.mark.slow
def test_the_default_settings_are_converged():
    """128² points and steps of 0.02 against 256² and 0.01, to t = 20."""
    usual, fine = (
        next(NavierStokes(resolution=resolution, time_step=step).solve([np.random.default_rng(0)]))
        for resolution, step in ((128, 0.02), (256, 0.01))
    )
    error = np.linalg.norm(usual.fields - fine.fields, axis=1) / np.linalg.norm(fine.fields, axis=1)
    print(f"relative difference at t=1, 5, 10, 20: {error[[0, 4, 9, 19], 0]}; {usual.seconds:.1f} s, {fine.seconds:.1f} s")
    assert error.max() < 5e-3
