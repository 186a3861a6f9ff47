"""Implicit steps of the Euler equations in time, by the backward formula of order 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import SuperLU, splu

from calm_pde.solvers.methods.dual_mesh import DualMesh
from calm_pde.solvers.methods.euler import Euler
from calm_pde.solvers.methods.gas import primitive

_TOLERANCE, _MOST_CORRECTIONS = 0.02, 6  # of a time step's residual, relative to its first
_LARGEST_LOSS = 0.5  # of a point's density and pressure, in one correction
_MOST_HALVINGS = 8  # of a correction; after that a point stays as it is


class BlockSystem:
    """Linear systems with a 4 × 4 block per point and per end of an edge, ordered so that their factors stay sparse."""

    def __init__(self, dual: DualMesh) -> None:
        count = len(dual.volumes)
        (first, second), nodes = dual.ends, np.arange(count)
        rows, columns = np.concatenate([nodes, first, second]), np.concatenate([nodes, second, first])
        pattern = csc_array((np.where(rows == columns, 100.0, 1.0), (rows, columns)), shape=(count, count))
        place = splu(pattern, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).perm_c
        self._unknowns = (4 * np.argsort(place)[:, None] + np.arange(4)).ravel()
        component, other = (part.ravel()[:, None] for part in np.indices((4, 4)))
        parts = (nodes, nodes), (first, second), (second, first)
        big_rows = np.concatenate([(4 * place[row] + component).ravel() for row, _ in parts])
        big_columns = np.concatenate([(4 * place[column] + other).ravel() for _, column in parts])
        numbered = csc_array((np.arange(1.0, len(big_rows) + 1), (big_rows, big_columns)), shape=(4 * count, 4 * count))
        self._order, self._pattern = numbered.data.astype(np.int64) - 1, numbered

    def factors(self, own: np.ndarray, ahead: np.ndarray, back: np.ndarray) -> SuperLU:
        """Of blocks as `Euler.jacobian` gives them."""
        entries = np.concatenate([own.ravel(), ahead.ravel(), back.ravel()])[self._order]
        matrix = csc_array((entries, self._pattern.indices, self._pattern.indptr), shape=self._pattern.shape)
        return splu(matrix, permc_spec="NATURAL", diag_pivot_thresh=1e-3, options={"SymmetricMode": True})

    def solve(self, factors: SuperLU, right: np.ndarray) -> np.ndarray:
        """(4, point) of (4, point)."""
        found = np.empty(right.size)
        found[self._unknowns] = factors.solve(right.T.ravel()[self._unknowns])
        return np.ascontiguousarray(found.reshape(-1, 4).T)


@dataclass
class Unsteady:
    """A flow in time: V(γUₙ₊₁ − …)/Δt + R(Uₙ₊₁) = 0, order 2 with variable steps, order 1 for the first.

    A step factors the derivative of the first-order residual once and corrects Uₙ with it until the residual has fallen to
    `tolerance` of its first value. `unsolved` is the largest share that was left in any step since the last `start`.
    """

    euler: Euler
    system: BlockSystem
    tolerance: float = _TOLERANCE
    most: int = _MOST_CORRECTIONS

    def start(self, state: np.ndarray) -> None:
        self.state, self._before, self._last_step, self.unsolved = state, state, 0.0, 0.0

    def step(self, step: float) -> None:
        ratio = step / self._last_step if self._last_step else 0.0
        leading, old, older = (1 + 2 * ratio) / (1 + ratio), 1 + ratio, ratio**2 / (1 + ratio)
        past = old * self.state - older * self._before
        mass = self.euler.dual.volumes / step
        own, ahead, back = self.euler.jacobian(self.state)
        factors = self.system.factors(own + leading * mass * np.eye(4)[:, :, None], ahead, back)
        new, first, left = self.state, 0.0, 1.0
        for _ in range(self.most):
            residual = mass * (leading * new - past) + self.euler.residual(new)
            size = float(np.linalg.norm(residual))
            first = first or size
            left = size / first if first else 0.0
            if left <= self.tolerance:
                break
            new = positive(new, self.system.solve(factors, -residual))
        self.unsolved = max(self.unsolved, left)
        self._before, self.state, self._last_step = self.state, new, step


def positive(state: np.ndarray, change: np.ndarray) -> np.ndarray:
    """state + change, with less of the change at points whose density or pressure would lose more than half."""
    share = np.ones(state.shape[1])
    before = primitive(state)
    for halvings in range(_MOST_HALVINGS + 1):
        after = primitive(state + share * change)
        low = (after[0] < _LARGEST_LOSS * before[0]) | (after[3] < _LARGEST_LOSS * before[3])
        if not low.any():
            break
        share[low] *= 0.5 if halvings < _MOST_HALVINGS else 0.0
    return state + share * change
