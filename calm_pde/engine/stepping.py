"""Latent time stepping: explicit Runge–Kutta methods on dz/dt = ψ(z, t), and the states they pass at given times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from calm_pde.types import Float, Tensor

Velocity = Callable[[Tensor, float], Tensor]
"""Of a state at a time, in frames."""

_ON_A_STEP = 1e-9  # a time this close to a (sub)step, in (sub)steps, is that step: it differs by rounding only


class Method(NamedTuple):
    """z + Δt Σ weight_i·k_i with k_i = ψ(z + Δt·reach_i·k_{i−1}, t + Δt·reach_i): each stage looks at the one before alone."""

    reaches: tuple[float, ...]
    weights: tuple[float, ...]


INTEGRATORS = {
    "euler": Method((0.0,), (1.0,)),  # the paper's step; order 1
    "heun": Method((0.0, 1.0), (1 / 2, 1 / 2)),  # the explicit trapezoidal rule; order 2
    "rk4": Method((0.0, 1 / 2, 1 / 2, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),  # the classical Runge–Kutta method; order 4
}


class Walk(NamedTuple):
    """Steps from state to state: state 0 is the start, and the k-th step makes state k + 1."""

    steps: list[tuple[int, float]]
    """The state that each step leaves from, and its size in frames."""
    visits: list[int]
    """The start, and the state at each of the times."""
    times: list[float]
    """Of every state, in frames."""

    def moments(self, method: Method) -> list[float]:
        """When ψ is asked, evaluation by evaluation."""
        return [self.times[start] + size * reach for start, size in self.steps for reach in method.reaches]


def walk(times: Sequence[float], substeps: int) -> Walk:
    """The way past the increasing times, counted in frames, in whole (sub)steps of 1/substeps.

    A time between them is reached by one shorter side step that is not continued, so that the answer at a time does not
    depend on which other times are asked.
    """
    steps: list[tuple[int, float]] = []
    visits, taken, current, reached = [0], 0, 0, [0.0]
    for time in times:
        whole = math.floor(time * substeps + _ON_A_STEP)
        for step in range(taken, whole):
            steps.append((current, 1 / substeps))
            reached.append((step + 1) / substeps)
            current = len(steps)
        taken = whole
        beyond = time * substeps - whole
        if beyond > _ON_A_STEP:
            steps.append((current, beyond / substeps))
            reached.append(time)
        visits.append(len(steps) if beyond > _ON_A_STEP else current)
    return Walk(steps, visits, reached)


def stepped(velocity: Velocity, z: Tensor, time: float, size: float, method: Method) -> Tensor:
    """The state one step later than a time."""
    later, before = z, None
    for reach, weight in zip(*method, strict=True):
        before = velocity(z if before is None else z + size * reach * before, time + size * reach)
        later = later + size * weight * before
    return later


def trajectory(
    velocity: Velocity, z: Float[Tensor, "batch token channel"], times: Sequence[float], integrator: str, substeps: int
) -> Float[Tensor, "batch time token channel"]:
    """The state now and at each of the increasing times."""
    return walked(velocity, z, walk(times, substeps), INTEGRATORS[integrator])


def walked(
    velocity: Velocity, z: Float[Tensor, "batch token channel"], way: Walk, method: Method
) -> Float[Tensor, "batch time token channel"]:
    """The states that the walk visits."""
    states = [z]
    for start, size in way.steps:
        states.append(stepped(velocity, states[start], way.times[start], size, method))
    return torch.stack([states[visit] for visit in way.visits], dim=1)
