"""Latent time stepping: explicit Runge–Kutta methods on dz/dt = ψ(z), and the states they pass at given times."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from calm_pde.types import Float, Tensor

Velocity = Callable[[Tensor], Tensor]
Step = Callable[[Velocity, Tensor, float], Tensor]

_ON_A_STEP = 1e-9  # a time this close to a (sub)step, in (sub)steps, is that step: it differs by rounding only


def euler(velocity: Velocity, z: Tensor, size: float) -> Tensor:
    """z + Δt·ψ(z), the paper's step; order 1."""
    return z + size * velocity(z)


def heun(velocity: Velocity, z: Tensor, size: float) -> Tensor:
    """The explicit trapezoidal rule; order 2."""
    first = velocity(z)
    return z + (size / 2) * (first + velocity(z + size * first))


def rk4(velocity: Velocity, z: Tensor, size: float) -> Tensor:
    """The classical Runge–Kutta method; order 4."""
    first = velocity(z)
    second = velocity(z + (size / 2) * first)
    third = velocity(z + (size / 2) * second)
    fourth = velocity(z + size * third)
    return z + (size / 6) * (first + 2 * second + 2 * third + fourth)


INTEGRATORS: dict[str, Step] = {"euler": euler, "heun": heun, "rk4": rk4}


def trajectory(
    velocity: Velocity, z: Float[Tensor, "batch token channel"], times: Sequence[float], integrator: str, substeps: int
) -> Float[Tensor, "batch time token channel"]:
    """The state now and at each of the increasing times, counted in frames.

    The walk takes whole (sub)steps of 1/substeps. A time between them is reached by one shorter side step that is not
    continued, so that the answer at a time does not depend on which other times are asked.
    """
    step = INTEGRATORS[integrator]
    states, taken, current = [z], 0, z
    for time in times:
        whole = math.floor(time * substeps + _ON_A_STEP)
        for _ in range(whole - taken):
            current = step(velocity, current, 1 / substeps)
        taken = whole
        beyond = time * substeps - whole
        states.append(current if beyond <= _ON_A_STEP else step(velocity, current, beyond / substeps))
    return torch.stack(states, dim=1)
