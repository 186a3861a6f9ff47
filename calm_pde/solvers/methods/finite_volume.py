"""Conservation laws on periodic grids of any dimension: limited linear reconstruction, upwind fluxes, two-stage steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import numpy as np

from calm_pde.solvers.methods.time_steps import whole_steps

SAFETY = 0.9
"""The share of the longest step that keeps a scalar's total variation from growing."""


class ConservationLaw(ABC):
    """u_t + ∇·f(u) = D Δu for states of shape (batch, channel, *grid)."""

    diffusivity: float | np.ndarray = 0.0
    """D, of every primitive, one for all or (batch,); only laws whose primitives are the state itself may set it."""

    def primitive(self, state: np.ndarray) -> np.ndarray:
        """The variables that are reconstructed at the faces."""
        return state

    @abstractmethod
    def flux(self, left: np.ndarray, right: np.ndarray, axis: int) -> np.ndarray:
        """The flux through faces normal to `axis` between primitives of either side, (batch, channel, *faces).

        The faces have their axes in another order than the grid: only channels know directions.
        """

    @abstractmethod
    def crossing_rate(self, primitive: np.ndarray) -> np.ndarray:
        """The largest Σ_axis |wave speed| over the cells, (batch,)."""

    def of(self, chosen: np.ndarray) -> ConservationLaw:
        """The law of some trajectories of the batch."""
        if np.ndim(self.diffusivity) == 0:
            return self
        law = copy(self)
        law.diffusivity = np.asarray(self.diffusivity)[chosen]
        return law

    def repair(self, state: np.ndarray) -> np.ndarray:
        """Make impossible states possible in place; gives how many cells that took, (batch,)."""
        return np.zeros(len(state), dtype=np.int64)


class Effort(NamedTuple):
    """What each trajectory of a batch took: time steps, and cells repaired over all of them."""

    steps: np.ndarray
    repaired: np.ndarray


def half_slope(behind: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """Half the monotonized-central slope of the differences to both neighbors: ½ minmod(2a, 2b, (a + b)/2)."""
    least = np.minimum(behind, ahead)
    most = np.maximum(behind, ahead)
    np.maximum(least, 0.0, out=least)
    np.minimum(most, 0.0, out=most)
    slope = behind + ahead
    slope *= 0.25
    np.minimum(slope, least, out=slope)
    return np.maximum(slope, most, out=slope)


def rate_of_change(law: ConservationLaw, primitive: np.ndarray, spacing: float) -> np.ndarray:
    """−spacing·∇·(f − D ∇u), from fluxes that leave one cell and enter the next, so that every sum is conserved."""
    change = np.zeros_like(primitive)
    for axis in range(primitive.ndim - 2):
        # The axis of the sweep comes right after the channels: every slice below is then one contiguous block.
        swept = np.moveaxis(primitive, axis + 2, 2)
        padded = np.concatenate([swept[:, :, -2:], swept, swept[:, :, :2]], axis=2)
        jump = padded[:, :, 1:] - padded[:, :, :-1]
        half = half_slope(jump[:, :, :-1], jump[:, :, 1:])
        left = padded[:, :, 1:-2] + half[:, :, :-1]
        right = padded[:, :, 2:-1] - half[:, :, 1:]
        flux = law.flux(left, right, axis)
        if np.any(law.diffusivity):
            diffusive = jump[:, :, 1:-1]
            diffusive *= _over(law.diffusivity, diffusive) / spacing
            flux -= diffusive
        np.moveaxis(change, axis + 2, 2)[...] -= flux[:, :, 1:] - flux[:, :, :-1]
    return change


def _over(of_batch: float | np.ndarray, state: np.ndarray) -> np.ndarray:
    """One number for all or (batch,), for a product with states."""
    return np.reshape(of_batch, (-1,) + (1,) * (state.ndim - 1))


def longest_step(law: ConservationLaw, primitive: np.ndarray, spacing: float) -> np.ndarray:
    """0.9/(2 Σ_axis |speed|/h + 2 dim D/h²), (batch,).

    Limited slopes at most double a difference, hence the 2 before the speeds: with it one forward step of a scalar law is
    total-variation diminishing, and so is the mean of two.
    """
    dim = primitive.ndim - 2
    rate = 2 * law.crossing_rate(primitive) / spacing + 2 * dim * law.diffusivity / spacing**2
    return SAFETY / np.maximum(rate, np.finfo(np.float64).tiny)


def evolve(
    law: ConservationLaw,
    state: np.ndarray,
    spacing: float,
    times: np.ndarray,
    record: Callable[[int, int, np.ndarray], None],
) -> Effort:
    """Solve from `state` at times[0] on cells of width `spacing`, calling record(trajectory, frame, state) at every time.

    Each trajectory steps by its own clock, v = u + Δt L(u), u ← ½(u + v + Δt L(v)): it neither waits for nor sees the others.
    """
    state = np.array(state, dtype=np.float64)
    steps, repaired = np.zeros(len(state), dtype=np.int64), np.zeros(len(state), dtype=np.int64)
    running, clock, frame = (
        np.arange(len(state)),
        np.full(len(state), times[0], dtype=np.float64),
        np.ones(len(state), dtype=int),
    )
    for trajectory in running:
        record(int(trajectory), 0, state[trajectory])
    if len(times) == 1:
        return Effort(steps, repaired)
    while len(running):
        primitive = law.primitive(state)
        remaining = times[frame] - clock
        parts = whole_steps(remaining, longest_step(law, primitive, spacing))
        step = remaining / parts
        scale = _over(step / spacing, state)
        first = rate_of_change(law, primitive, spacing)
        first *= scale
        first += state
        repaired[running] += law.repair(first)
        second = rate_of_change(law, law.primitive(first), spacing)
        second *= scale
        second += first
        state += second
        state *= 0.5
        repaired[running] += law.repair(state)
        steps[running] += 1
        clock += step
        landed = parts == 1
        if not landed.any():
            continue
        for row in np.flatnonzero(landed):
            clock[row] = times[frame[row]]
            record(int(running[row]), int(frame[row]), state[row])
        frame += landed
        going = frame < len(times)
        if not going.all():
            state, running, clock, frame = state[going], running[going], clock[going], frame[going]
            law = law.of(going)
    return Effort(steps, repaired)
