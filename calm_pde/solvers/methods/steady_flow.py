"""Steady flows of the Euler equations: implicit local time steps, then an accelerated iteration with a frozen limiter."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from calm_pde.solvers.methods.euler import Euler
from calm_pde.solvers.methods.implicit import BlockSystem, positive


@dataclass(frozen=True)
class Steady:
    """How a steady flow is reached.

    Backward steps whose local Courant number grows lead near it. There the limiter's weights are frozen, so that the residual
    is smooth, and the last factors serve as a fixed-point iteration U ← U − J⁻¹R(U) with Anderson's acceleration.

    Args:
        fall: of the residual's size, to be reached.
        freeze: steps before the limiter is frozen.
        most: iterations in all.
        window: differences that the acceleration remembers.
    """

    fall: float = 1e-4
    freeze: int = 40
    most: int = 250
    courant: tuple[float, float] = (10.0, 1000.0)
    growth: float = 1.5
    window: int = 20

    def __call__(self, euler: Euler, system: BlockSystem) -> tuple[np.ndarray, list[float]]:
        """The conserved state, and the size of the residual before each iteration over that of the uniform flow."""
        state, weights, factors, mixing = euler.uniform(), None, None, Mixing(self.window)
        scale, history = float(np.linalg.norm(euler.residual(state))), []
        for iteration in range(self.most):
            if iteration == self.freeze:
                weights = euler.limiter(state)
            residual = euler.residual(state, weights)
            history.append(float(np.linalg.norm(residual)) / scale)
            if history[-1] <= self.fall or not np.isfinite(history[-1]):
                break
            if factors is None or iteration <= self.freeze:
                courant = min(self.courant[0] * self.growth**iteration, self.courant[1])
                own, ahead, back = euler.jacobian(state)
                mass = euler.dual.volumes / (courant * euler.time_scale(state))
                factors = system.factors(own + mass * np.eye(4)[:, :, None], ahead, back)
            change = system.solve(factors, -residual)
            state = positive(state, change if weights is None else mixing(state, change))
        return state, history


@dataclass
class Mixing:
    """Anderson's acceleration of x ← x + g(x): the step that would make g zero, were it linear on the last differences."""

    window: int
    _states: list[np.ndarray] = field(default_factory=list)
    _changes: list[np.ndarray] = field(default_factory=list)

    def __call__(self, state: np.ndarray, change: np.ndarray) -> np.ndarray:
        self._states = [*self._states, state.ravel()][-self.window - 1 :]
        self._changes = [*self._changes, change.ravel()][-self.window - 1 :]
        if len(self._states) == 1:
            return change
        states, changes = np.diff(self._states, axis=0), np.diff(self._changes, axis=0)
        shares, *_ = np.linalg.lstsq(changes.T, self._changes[-1], rcond=1e-10)
        return change - (shares @ (states + changes)).reshape(change.shape)
