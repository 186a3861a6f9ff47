"""The spectral engine: exact products, and steps of fourth order."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.solvers.methods.spectral import Torus, evolve


def function(points: np.ndarray) -> np.ndarray:
    """Waves up to 3 per axis, of any dimension."""
    phases = points @ np.arange(1.0, points.shape[-1] + 1)
    return 0.5 + np.cos(2 * np.pi * phases + 0.3) + 0.2 * np.sin(2 * np.pi * (3 * points[..., 0] - points[..., -1]))


def grid(resolution: int, dim: int) -> np.ndarray:
    return np.stack(np.meshgrid(*[np.arange(resolution) / resolution] * dim, indexing="ij"), axis=-1)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("resolution", [11, 12, 13])
def test_values_and_modes_are_inverse_and_derivatives_exact(resolution, dim):
    torus = Torus(resolution, dim)
    values = function(grid(resolution, dim))
    modes = torus.modes(values)
    assert np.allclose(torus.values(modes), values, atol=1e-14)
    shift = 1e-4
    for axis in range(dim):
        offset = shift * np.eye(dim)[axis]
        slope = (function(grid(resolution, dim) + offset) - function(grid(resolution, dim) - offset)) / (2 * shift)
        assert np.allclose(torus.values(torus.derivative[axis] * modes), slope, atol=1e-4)


def test_products_of_held_functions_do_not_alias():
    """The highest waves squared reach 2K: their modes up to K come out as if the grid were twice as fine."""
    draw, coarse, fine = np.random.default_rng(0), Torus(12, 1), Torus(24, 1)
    modes = draw.normal(size=4) + 1j * draw.normal(size=4)
    modes[0] = 1.0
    padded = np.concatenate([modes, np.zeros(fine.highest - 3)])
    assert np.allclose(coarse.modes(coarse.values(modes) ** 2), fine.modes(fine.values(padded) ** 2)[:4], atol=1e-13)


@pytest.mark.parametrize("stiff", [0.0, -50.0])
def test_steps_are_of_fourth_order(stiff):
    """c_t = a c + c², c = a e^{at}/(a/c₀ + 1 − e^{at})  (c₀/(1 − c₀t) for a = 0)."""
    start, end = 0.5, 1.0
    exact = start / (1 - start * end) if stiff == 0 else stiff * np.exp(stiff * end) / (stiff / start + 1 - np.exp(stiff * end))
    errors = []
    for step in (0.05, 0.025, 0.0125):
        solution = evolve(np.array([start + 0j]), np.array([stiff]), lambda c: (c * c, 0.0), 0.0, np.array([end]), step)
        errors.append(abs(next(solution)[0] - exact) / abs(exact))
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert np.abs(orders - 4).max() < 0.45, (orders, errors)


def test_the_linear_part_is_exact_and_times_are_hit():
    times = np.array([0.0, 0.3, 1.0, 1.01])
    solution = evolve(np.array([1 + 0j]), np.array([-3.0]), lambda c: (0 * c, 0.0), 0.0, times, 0.4)
    assert np.allclose([modes[0] for modes in solution], np.exp(-3 * times), rtol=1e-13)


def test_a_fast_flow_gets_short_steps():
    """A mode turned 100 times faster than the longest step can follow does not blow up."""
    count = 0

    def turning(modes: np.ndarray) -> tuple[np.ndarray, float]:
        nonlocal count
        count += 1
        return 100j * modes, 100.0

    (end,) = evolve(np.array([1 + 0j]), np.array([0.0]), turning, 0.0, np.array([1.0]), 1.0)
    assert count == 200
    assert abs(end[0]) <= 1.0
