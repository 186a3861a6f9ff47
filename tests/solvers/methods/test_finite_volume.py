"""The finite-volume engine: its limiter, its clock, and batches whose members never see each other."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.geometry import cell_centers
from calm_pde.solvers.methods.finite_volume import ConservationLaw, Effort, evolve, half_slope
from calm_pde.solvers.problems.burgers import BurgersLaw
from calm_pde.solvers.problems.compressible import Euler


def solved(law: ConservationLaw, state: np.ndarray, spacing: float, times: np.ndarray) -> tuple[np.ndarray, Effort]:
    """All states, (batch, time, channel, *grid)."""
    states = np.full((len(state), len(times), *state.shape[1:]), np.nan)
    effort = evolve(law, state, spacing, times, lambda trajectory, frame, now: states[trajectory].__setitem__(frame, now))
    return states, effort


class Transport(ConservationLaw):
    """u_t + ∇·u = D Δu, one unit of speed along every axis."""

    def __init__(self, diffusivity: float = 0.0) -> None:
        self.diffusivity = diffusivity

    def flux(self, left: np.ndarray, right: np.ndarray, axis: int) -> np.ndarray:
        return left

    def crossing_rate(self, primitive: np.ndarray) -> np.ndarray:
        return np.full(len(primitive), float(primitive.ndim - 2))


def test_the_slope_is_monotonized_central():
    behind, ahead = np.random.default_rng(0).normal(size=(2, 1000))
    candidates = np.stack([2 * behind, 2 * ahead, (behind + ahead) / 2])
    minmod = np.where((candidates > 0).all(0), candidates.min(0), np.where((candidates < 0).all(0), candidates.max(0), 0.0))
    assert np.allclose(half_slope(behind, ahead), minmod / 2, rtol=1e-15, atol=0)


@pytest.mark.parametrize(("dim", "resolutions"), [(1, (64, 128, 256)), (2, (32, 64, 128)), (3, (16, 32))])
def test_a_wave_in_any_dimension_at_second_order(dim, resolutions):
    """u = exp(−4π²·dim·D t) Π sin 2π(x_axis − t); the limiter flattens extrema, hence the mean error."""
    diffusivity, end, errors = 0.01, 0.1, []
    for count in resolutions:
        axes = np.meshgrid(*[cell_centers(count)] * dim, indexing="ij")
        initial = np.prod([np.sin(2 * np.pi * x) for x in axes], axis=0)
        states, _ = solved(Transport(diffusivity), initial[None, None], 1 / count, np.array([0.0, end]))
        moved = np.prod([np.sin(2 * np.pi * (x - end)) for x in axes], axis=0)
        errors.append(np.abs(states[0, 1, 0] - moved * np.exp(-4 * np.pi**2 * dim * diffusivity * end)).mean())
    orders = np.log2(np.divide(errors[:-1], errors[1:]))
    assert orders.min() > 1.7, orders


@pytest.mark.parametrize("law", [BurgersLaw(1e-3), Euler()], ids=["burgers", "euler"])
def test_a_batch_gives_the_bits_of_each_alone(law):
    """Members of very different speed: each finishes by its own clock."""
    draw = np.random.default_rng(0)
    if isinstance(law, Euler):
        state = law.state(1.0 + 0.2 * draw.uniform(size=(3, 4, 8, 6)))
        state[1, 1] *= 20.0
    else:
        state = draw.normal(size=(3, 1, 48)) * np.array([0.3, 5.0, 1.0])[:, None, None]
    times = np.array([0.0, 0.013, 0.05])
    together, effort = solved(law, state, 0.05, times)
    for member in range(3):
        alone, its_effort = solved(law, state[member : member + 1], 0.05, times)
        assert np.array_equal(alone[0], together[member])
        assert its_effort.steps[0] == effort.steps[member]
    assert len(set(effort.steps)) > 1


def test_stored_times_are_hit_exactly():
    """A diffusing sine tells the time by its decay, even where two stored times are closer than one step."""
    diffusivity, count = 0.05, 64
    times = np.array([0.0, 0.01, 0.0101, 0.05])
    wave = np.sin(2 * np.pi * cell_centers(count))
    states, _ = solved(_Diffusion(diffusivity), wave[None, None], 1 / count, times)
    decay = states[0, :, 0] @ wave / (wave @ wave)
    rate = diffusivity * (2 * count * np.sin(np.pi / count)) ** 2  # of the central difference
    assert np.allclose(decay, np.exp(-rate * times), rtol=1e-6)


class _Diffusion(Transport):
    def flux(self, left: np.ndarray, right: np.ndarray, axis: int) -> np.ndarray:
        return 0 * left

    def crossing_rate(self, primitive: np.ndarray) -> np.ndarray:
        return np.zeros(len(primitive))


def test_a_state_without_motion_takes_one_step_per_frame():
    states, effort = solved(BurgersLaw(0.0), np.zeros((1, 1, 8)), 0.125, np.array([0.0, 1.0, 2.0]))
    assert effort.steps.tolist() == [2]
    assert not states.any()
