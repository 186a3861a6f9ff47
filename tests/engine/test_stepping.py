"""The integrators have their order, and the answer at a time depends on that time alone."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calm_pde.engine.stepping import trajectory

GENERATOR = torch.tensor([[-0.3, 1.0, 0.2], [-1.0, -0.1, 0.0], [0.1, 0.3, -0.5]], dtype=torch.float64)
START = torch.tensor([[[1.0, 0.5, -0.7]]], dtype=torch.float64)


def linear_system(z: torch.Tensor, time: float = 0.0) -> torch.Tensor:
    return z @ GENERATOR.T


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("heun", 2), ("rk4", 4)])
def test_observed_order(integrator, order):
    """dz/dt = A z against the matrix exponential, substeps 8 … 256."""
    exact = START @ torch.linalg.matrix_exp(3 * GENERATOR).T
    errors = []
    for substeps in (8, 16, 32, 64, 128, 256):
        final = trajectory(linear_system, START, [1.0, 2.0, 3.0], integrator, substeps)[:, -1]
        errors.append(float((final - exact).norm()))
    observed = [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(errors) if fine > 1e-13]
    assert len(observed) >= 3
    assert observed[-1] == pytest.approx(order, abs=0.1)


@given(
    times=st.lists(st.floats(0.01, 6), min_size=1, max_size=6, unique=True),
    others=st.lists(st.floats(0.01, 6), min_size=0, max_size=6),
    integrator=st.sampled_from(["euler", "heun", "rk4"]),
    substeps=st.integers(1, 4),
)
def test_answer_depends_on_its_own_time_only(times, others, integrator, substeps):
    asked = sorted(set(times) | set(others))
    states = trajectory(linear_system, START, asked, integrator, substeps)
    for time in times:
        alone = trajectory(linear_system, START, [time], integrator, substeps)
        assert torch.equal(states[:, 1 + asked.index(time)], alone[:, 1])


def test_the_walk_keeps_whole_frames():
    """Δt = 1 per frame; a time between is one shorter side step from the frame before, not continued."""
    frames = trajectory(linear_system, START, [1.0, 2.0, 3.0], "euler", 1)
    mixed = trajectory(linear_system, START, [0.5, 1.0, 1.25, 3.0], "euler", 1)
    assert torch.equal(frames[:, 0], START)
    assert torch.equal(frames[:, 1], START + linear_system(START))
    assert torch.equal(mixed[:, 1], START + 0.5 * linear_system(START))
    assert torch.equal(mixed[:, 3], frames[:, 1] + 0.25 * linear_system(frames[:, 1]))
    assert torch.equal(mixed[:, 4], frames[:, 3])


def test_rounding_of_a_time_does_not_add_a_step():
    calls = 0

    def counting(z: torch.Tensor, time: float) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return z

    trajectory(counting, START, [0.1 + 0.2, 0.7 + 0.1 + 0.1], "euler", 10)
    assert calls == 9
