"""The integrators have their order, and the answer at a time depends on that time alone."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calm_pde.engine.stepping import trajectory
from calm_pde.records.signals import Signals

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


def forced(signal):
    """dz/dt = A z + c(t)."""
    return lambda z, time: z @ GENERATOR.T + signal(time)


def smooth(time: float) -> torch.Tensor:
    return torch.tensor([math.sin(2 * time), math.cos(3 * time + 1), math.sin(time) ** 2], dtype=torch.float64)


def in_straight_lines(knots: int):
    """`smooth` between so many knots a frame, as a known signal is told."""
    times = torch.arange(3 * knots + 1, dtype=torch.float64)[None] / knots
    signals = Signals(times, torch.stack([smooth(float(time)) for time in times[0]])[None])
    return lambda time: signals.at(torch.tensor([time], dtype=torch.float64))


def orders(errors: list[float]) -> list[float]:
    return [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(errors)]


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("heun", 2), ("rk4", 4)])
def test_observed_order_under_a_smooth_signal_that_is_known_exactly(integrator, order):
    """Asked at its own moments: at the ends of a step and, by rk4, in its middle; the last time is reached by a side step."""
    exact = trajectory(forced(smooth), START, [1.0, 1.5], "rk4", 512)
    errors = []
    for substeps in (9, 17, 33, 65):
        states = trajectory(forced(smooth), START, [1.0, 1.5], integrator, substeps)
        errors.append(float((states - exact).norm()))
    steps = math.log2(65 / 33)
    assert orders(errors)[-1] / steps == pytest.approx(order, abs=0.2)


def test_linear_interpolation_of_a_signal_has_order_two_of_its_own():
    """With knots as close as steps rk4 is left with 2; where knots stay, more steps find the solution under straight lines."""
    exact = trajectory(forced(smooth), START, [3.0], "rk4", 512)[:, -1]
    ends = [trajectory(forced(in_straight_lines(n)), START, [3.0], "rk4", n)[:, -1] for n in (4, 8, 16, 32)]
    assert orders([float((end - exact).norm()) for end in ends])[-1] == pytest.approx(2, abs=0.1)
    lines = [trajectory(forced(in_straight_lines(4)), START, [3.0], "rk4", steps)[:, -1] for steps in (4, 8, 16, 128)]
    assert orders([float((end - lines[-1]).norm()) for end in lines[:-1]])[-1] == pytest.approx(4, abs=0.2)
    assert float((lines[-1] - exact).norm()) > 1e-3


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
