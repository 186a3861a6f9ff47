"""Incompressible flow on triangles: Taylor–Hood elements, second-order steps, pressure by projection."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import SuperLU, splu

from calm_pde.errors import InputError
from calm_pde.solvers.mesh.triangles import TriangleMesh
from calm_pde.solvers.methods.taylor_hood import TaylorHood

Boundary = Callable[[np.ndarray, float], np.ndarray]
"""(node, 2) places on the boundary and the time ↦ (node, 2) velocities."""
Linear = Callable[[np.ndarray], np.ndarray]

_TOLERANCE = 1e-7  # of the momentum equation's residual, relative to its right-hand side
_MOST_ITERATIONS = 60
_STALE = 3  # iterations from which on the momentum matrix is factored anew instead of using an older one's factors
_START_ITERATIONS = 12  # repetitions of a first projection or step, until its pressure has settled


class Flow:
    """u_t + u·∇u = νΔu − ∇p, ∇·u = 0, density 1: its state and its steps.

    A step from tₙ to tₙ₊₁ by the backward formula of order 2 with variable steps (order 1 for the first), w extrapolated from
    the last two velocities and γ the formula's leading coefficient:
    1. γũ/Δt + w·∇ũ − νΔũ = (uₙ, uₙ₋₁ terms) − ∇pₙ, ũ given on the boundary, νu_n = p n on the outlets;
    2. Δφ = (γ/Δt) ∇·ũ, φ = 0 on the outlets;
    3. û = ũ − (Δt/γ) ∇φ, pₙ₊₁ = pₙ + φ;
    4. uₙ₊₁ − (Δt/γ) ν∇(∇·uₙ₊₁) = û: û is free of divergence on average around each point only, and this damps the rest.

    Args:
        velocity: on every boundary but the outlets.
        outlets: names of boundaries that the flow leaves through; without one the pressure is zero at the first point.
    """

    def __init__(self, mesh: TriangleMesh, viscosity: float, velocity: Boundary, outlets: Sequence[str] = ("outflow",)) -> None:
        self.space, self.viscosity, self._given = TaylorHood(mesh), viscosity, velocity
        given = [self.space.nodes(name) for name in mesh.boundary if name not in outlets]
        self.fixed = np.unique(np.concatenate(given))
        self._free = np.setdiff1d(np.arange(len(self.space.points)), self.fixed)
        open_points = [np.unique(mesh.boundary[name]) for name in outlets if name in mesh.boundary]
        self._loose = np.setdiff1d(np.arange(len(mesh.points)), np.concatenate(open_points) if open_points else [0])
        self._mass_factors = _factors(self.space.matrix(self.space.mass)[self._free][:, self._free])
        self._factors: SuperLU | None = None
        self._iterations = 0
        self._damping_factors: SuperLU | None = None
        self._damped_length = 0.0
        self._pressure_factors = _factors(self.space.laplacian[self._loose][:, self._loose])

    def start(self, velocity: np.ndarray, pressure: np.ndarray | None = None, time: float = 0.0) -> None:
        """Begin from a (node, 2) velocity, made to fit the boundary and free of divergence, and a (point,) pressure."""
        self.time, self.velocity = time, velocity.copy()
        self.velocity[self.fixed] = self._given(self.space.points[self.fixed], time)
        for _ in range(_START_ITERATIONS):
            self._project(self.velocity, 1.0)
        self.pressure = np.zeros(len(self.space.mesh.points)) if pressure is None else pressure.copy()
        self.settled = pressure is not None
        self._before, self._last_step, self.rate = self.velocity, 0.0, np.zeros_like(velocity)

    def step(self, step: float) -> None:
        """Advance by one time step; a first one without a given pressure is repeated until pressure and velocity fit."""
        space, ratio = self.space, step / self._last_step if self._last_step else 0.0
        leading, old, older = (1 + 2 * ratio) / (1 + ratio), 1 + ratio, ratio**2 / (1 + ratio)
        carrier = (1 + ratio) * self.velocity - ratio * self._before
        past = (old * self.velocity - older * self._before) / step
        mass = space.matrix(space.mass)
        matrix = space.matrix(leading / step * space.mass + self.viscosity * space.stiffness + space.transport(carrier))
        new = carrier.copy()
        new[self.fixed] = self._given(space.points[self.fixed], self.time + step)
        for _ in range(1 if self.settled else _START_ITERATIONS):
            new = self._solved(matrix, mass @ past + space.weak_gradient(self.pressure), new)
            self.pressure += self._project(new, step / leading)
        self._damp(new, step / leading)
        self.settled = True
        self.rate = leading / step * new - past
        self._before, self.velocity = self.velocity, new
        self._last_step, self.time = step, self.time + step

    def vertex_fields(self) -> np.ndarray:
        """(point, 3) velocity and pressure at the points of the mesh."""
        count = len(self.space.mesh.points)
        return np.concatenate([self.velocity[:count], self.pressure[:, None]], axis=1)

    def force(self, name: str) -> np.ndarray:
        """(2,) ∫(pn − ν∂u/∂n) over a named boundary, n into it: what the flow exerts, as the residual of its nodes.

        Exact for a closed boundary; one that meets others has their share at its end nodes.
        """
        space = self.space
        steady = space.matrix(self.viscosity * space.stiffness + space.transport(self.velocity))
        residual = space.matrix(space.mass) @ self.rate + steady @ self.velocity - space.weak_gradient(self.pressure)
        residual += self.viscosity * space.weak_grad_div(self.velocity)
        return -residual[space.nodes(name)].sum(axis=0)

    def _project(self, velocity: np.ndarray, length: float) -> np.ndarray:
        """Take the gradient part from a velocity, in place; the potential φ of it, ũ − u = length·∇φ."""
        potential = np.zeros(len(self.space.mesh.points))
        sources = self.space.weak_divergence(velocity)[self._loose]
        potential[self._loose] = self._pressure_factors.solve(-sources / length)
        pull = self.space.weak_gradient(potential)[self._free]
        velocity[self._free] += length * self._mass_factors.solve(pull)
        return potential

    def _damp(self, velocity: np.ndarray, length: float) -> None:
        """Solve u − length·ν∇(∇·u) = û for the free nodes, in place."""
        factors = self._damping_factors
        if factors is None or self._damped_length != length:
            factors = _factors(self.space.mass_and_grad_div(self._free, length * self.viscosity))
            self._damped_length, self._damping_factors = length, factors
        pull = -length * self.viscosity * self.space.weak_grad_div(velocity)[self._free]
        velocity[self._free] += factors.solve(pull.T.ravel()).reshape(2, -1).T

    def _solved(self, matrix: csr_array, right: np.ndarray, guess: np.ndarray) -> np.ndarray:
        """The velocity of the momentum equation, boundary values taken from the guess."""
        residual = (right - matrix @ guess)[self._free]
        tolerance = _TOLERANCE * float(np.linalg.norm(right[self._free]))
        inner = matrix[self._free][:, self._free]
        factors = self._factors
        if factors is None or self._iterations > _STALE:
            factors = self._factors = _factors(inner)
        change, self._iterations = bicgstab(inner.dot, residual, factors.solve, tolerance)
        new = guess.copy()
        new[self._free] += change
        return new


def bicgstab(applied: Linear, right: np.ndarray, nearly_inverse: Linear, tolerance: float) -> tuple[np.ndarray, int]:
    """Solve A X = B for all columns of B at once by stabilized bi-conjugate gradients; with the number of iterations.

    Args:
        tolerance: of the norm of each column's residual.
    """
    solution, residual, shadow = np.zeros_like(right), right.copy(), right
    direction = residual
    product = _dots(shadow, residual)
    for iteration in range(_MOST_ITERATIONS):
        if np.linalg.norm(residual, axis=0).max() <= tolerance:
            return solution, iteration
        ahead = nearly_inverse(direction)
        image = applied(ahead)
        along = _ratio(product, _dots(shadow, image))
        half = residual - along * image
        smooth = nearly_inverse(half)
        smooth_image = applied(smooth)
        damping = _ratio(_dots(smooth_image, half), _dots(smooth_image, smooth_image))
        solution += along * ahead + damping * smooth
        residual = half - damping * smooth_image
        following = _dots(shadow, residual)
        direction = residual + _ratio(following, product) * _ratio(along, damping) * (direction - damping * image)
        product = following
    raise InputError(
        "time step",
        expected=f"one whose momentum equation is solved in {_MOST_ITERATIONS} iterations",
        got=f"a residual of {np.linalg.norm(residual, axis=0).max():.2g} where {tolerance:.2g} was wanted",
        fix="Take shorter steps or a finer mesh.",
    )


def _dots(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.einsum("nc,nc->c", one, other)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """above/below, and 0 where a column is solved already and nothing is left below."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def _factors(matrix: csr_array) -> SuperLU:
    return splu(csc_array(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
