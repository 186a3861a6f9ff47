"""The Euler equations on triangles: finite volumes around the points, second order, with slip walls and a far field."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calm_pde.solvers.methods.dual_mesh import DualMesh, Side
from calm_pde.solvers.methods.gas import (
    GAMMA,
    conserved,
    entropy,
    fastest_wave,
    flux_derivative,
    pressure_derivative,
    primitive,
    roe_flux,
    rusanov_flux,
)

_SMOOTH = 0.02  # of the free stream's density, speed of sound and pressure: smaller differences are not limited
_SMALLEST = 0.2  # of a point's density and pressure: a face with less takes the point's own
_TRUSTED, _UNTRUSTED = 0.8, 0.5  # of the free stream's entropy: between them a flux goes over into the first-order one
_NEAR, _ACROSS = 5 / 6, 1 / 6  # a half edge's share of the pressures at its own and at the other end, exact where p is linear


class Euler:
    """∂U/∂t + ∇·F(U) = 0 in units of the free stream's density and speed of sound.

    Faces lie between the points of an edge; states on both sides are extended from them, limited by van Albada's mean of
    a = 2∇W·d − ΔW and b = ΔW,

        W_face = W ± ½(w a + (1 − w) b),   w = (b² + ε)/(a² + b² + 2ε),

    and meet in Roe's flux. Where the entropy at an end is far below the free stream's, which only errors can do, the flux goes
    over into the first-order one that `jacobian` is of. Through a wall goes pressure alone, through the far field Roe's flux
    against the free stream.
    """

    def __init__(self, dual: DualMesh, outside: np.ndarray, *, walls: Sequence[str] = (), far: Sequence[str] = ()) -> None:
        self.dual, self.outside = dual, outside
        self.walls, self._far = [dual.sides[name] for name in walls], [dual.sides[name] for name in far]
        self._threshold = np.square(_SMOOTH * np.array([1.0, 1.0, 1.0, 1 / GAMMA]))[:, None]

    def uniform(self) -> np.ndarray:
        """(4, point) conserved: the free stream everywhere, an impulsive start."""
        return np.tile(conserved(self.outside[:, None]), len(self.dual.volumes))

    def residual(self, state: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """(4, point) ∮F·n over each volume, of a conserved state.

        Args:
            weights: of the limiter, frozen; see `limiter`.
        """
        here = primitive(state)
        first, second = self.dual.ends
        one, other = np.take(here, first, axis=1), np.take(here, second, axis=1)
        jump = other - one
        slopes = self._slopes(here, jump)
        ahead = weights if weights is not None else self._weights(slopes, jump)
        left, right = (
            value + sign * 0.5 * (ahead[side] * slopes[side] + (1 - ahead[side]) * jump)
            for side, (value, sign) in enumerate(((one, 1.0), (other, -1.0)))
        )
        for face, value in ((left, one), (right, other)):
            low = ((face[0] < _SMALLEST * value[0]) | (face[3] < _SMALLEST * value[3])).nonzero()[0]
            face[:, low] = value[:, low]
        leaving = roe_flux(left, right, self.dual.normals)
        trust = np.clip((entropy(here) / entropy(self.outside[:, None]) - _UNTRUSTED) / (_TRUSTED - _UNTRUSTED), 0.0, 1.0)
        trust = np.minimum(trust[first], trust[second])
        doubted = (trust < 1).nonzero()[0]
        simple = rusanov_flux(one[:, doubted], other[:, doubted], self.dual.normals[:, doubted])
        leaving[:, doubted] = trust[doubted] * leaving[:, doubted] + (1 - trust[doubted]) * simple
        return (self.dual.outflow @ leaving.T).T + self._through_boundary(here)

    def limiter(self, state: np.ndarray) -> np.ndarray:
        """(2, 4, edge) weights w of a state at the two ends of every edge; with these frozen the residual is smooth."""
        here = primitive(state)
        first, second = self.dual.ends
        jump = np.take(here, second, axis=1) - np.take(here, first, axis=1)
        return self._weights(self._slopes(here, jump), jump)

    def jacobian(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives of a first-order residual with the simplest damping, ½ the fastest wave, as 4 × 4 blocks.

        Returns (4, 4, point) of each volume after its own state, (4, 4, edge) of the first end's volume after the second's
        state, and (4, 4, edge) the other way round.
        """
        here, dual = primitive(state), self.dual
        first, second = dual.ends
        one, other = np.take(here, first, axis=1), np.take(here, second, axis=1)
        wave = np.maximum(fastest_wave(one, dual.normals), fastest_wave(other, dual.normals))
        damping = 0.5 * wave * np.eye(4)[:, :, None]
        ahead = 0.5 * flux_derivative(other, dual.normals) - damping
        back = -0.5 * flux_derivative(one, dual.normals) - damping
        summed = np.bincount(first, 0.5 * wave, len(dual.volumes)) + np.bincount(second, 0.5 * wave, len(dual.volumes))
        own = summed * np.eye(4)[:, :, None] + 0.5 * flux_derivative(here, (dual.outflow @ dual.normals.T).T)
        for side in self.walls:
            normal = self._at_points(side)
            own[1:3] += _NEAR * normal[:, None] * pressure_derivative(here)
        for side in self._far:
            normal = self._at_points(side)
            own += 0.5 * (flux_derivative(here, normal) + fastest_wave(here, normal) * np.eye(4)[:, :, None])
        return own, ahead, back

    def time_scale(self, state: np.ndarray) -> np.ndarray:
        """(point,) volume over the sum of its waves: the step of Courant number 1."""
        here, dual = primitive(state), self.dual
        first, second = dual.ends
        waves = [fastest_wave(np.take(here, end, axis=1), dual.normals) for end in (first, second)]
        summed = np.bincount(first, waves[0], len(dual.volumes)) + np.bincount(second, waves[1], len(dual.volumes))
        return dual.volumes / summed

    def coefficients(self, state: np.ndarray) -> tuple[float, float]:
        """Lift and drag: the pressure's force on the walls across and along the free stream, over ½ρ|u|² of it and length 1."""
        here = primitive(state)
        force = sum((self._push(side, here).sum(axis=1) for side in self.walls), np.zeros(2))
        density, u, v, _ = self.outside
        speed = np.hypot(u, v)
        scale = 0.5 * density * speed**3
        return float((force[1] * u - force[0] * v) / scale), float((force[0] * u + force[1] * v) / scale)

    def _slopes(self, here: np.ndarray, jump: np.ndarray) -> np.ndarray:
        """(2, 4, edge) 2∇W·d − ΔW at both ends of every edge."""
        (x, y), dual = self.dual.gradients(here), self.dual
        ends = (np.take(x, end, axis=1) * dual.offsets[0] + np.take(y, end, axis=1) * dual.offsets[1] for end in dual.ends)
        return np.stack([2 * end - jump for end in ends])

    def _weights(self, slopes: np.ndarray, jump: np.ndarray) -> np.ndarray:
        squares, others = np.square(jump) + self._threshold, np.square(slopes) + self._threshold
        return squares / (squares + others)

    def _through_boundary(self, here: np.ndarray) -> np.ndarray:
        total = np.zeros_like(here)
        for side in self.walls:
            total[1:3] += self.dual.at_points(self._push(side, here), side.ends.ravel())
        for side in self._far:
            inside = np.take(here, side.ends.ravel(), axis=1)
            outside = np.broadcast_to(self.outside[:, None], inside.shape)
            leaving = roe_flux(inside, outside, np.tile(0.5 * side.normals, 2))
            total += self.dual.at_points(leaving, side.ends.ravel())
        return total

    def _push(self, side: Side, here: np.ndarray) -> np.ndarray:
        """(2, 2·edge) ∫pn over the half edges at the first ends, then at the second ends."""
        pressure = here[3][side.ends]
        return np.tile(0.5 * side.normals, 2) * (_NEAR * pressure + _ACROSS * pressure[::-1]).ravel()

    def _at_points(self, side: Side) -> np.ndarray:
        return self.dual.at_points(np.tile(0.5 * side.normals, 2), side.ends.ravel())
