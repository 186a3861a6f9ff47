"""Heat conduction in a plate by linear triangles, in time by the trapezoidal rule with a backward formula (TR-BDF2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import SuperLU

from calm_pde.solvers.mesh.triangles import TriangleMesh
from calm_pde.solvers.methods.finite_elements import Mesh, factors, triangle

OfPlaces = Callable[[np.ndarray, float], np.ndarray]
"""Of places (place, 2) and a time: (place,) numbers, or one for all."""

_SHARE = 2 - np.sqrt(2)  # of a step, until the inner stage: with it both stages have the same matrix
_INNER = 1 / (_SHARE * (2 - _SHARE))  # weight of the inner stage in the backward formula; the state before has 1 − it


@dataclass(frozen=True)
class Boundaries:
    """What happens at the edges of a plate; those that are not named are insulated.

    Args:
        held: names of the boundaries whose temperature is given.
        temperature: theirs.
        transfer: per name the heat that crosses a boundary per area and degree that it is warmer than `ambient`.
    """

    held: tuple[str, ...] = ()
    temperature: OfPlaces = lambda places, time: np.zeros(len(places))
    transfer: Mapping[str, float] = field(default_factory=dict)
    ambient: float = 0.0


class Conduction:
    """ρc ∂T/∂t = ∇·(k∇T) + q, T given on some boundaries, −k ∂T/∂n = h(T − T_ambient) on others, with h = 0 where none is said.

    The mass is lumped at the points, and heat is conserved to rounding. A step of length Δt goes to its share γ = 2 − √2 by the
    trapezoidal rule and on by the backward formula of order 2, L-stable, with one matrix M + ½γΔt K for both; its factors are
    kept as long as steps are equally long.

    Args:
        source: q, read at the middles of all edges of all triangles.
    """

    def __init__(
        self, mesh: TriangleMesh, conductivity: float, capacity: float, source: OfPlaces, boundaries: Boundaries
    ) -> None:
        elements = Mesh(triangle(), mesh.points, mesh.cells)
        products = elements.gradient_products()
        blocks = conductivity * (products[:, :, 0, :, 0] + products[:, :, 1, :, 1])
        self._places, self._spread = elements.loads()
        self.mass = capacity * np.asarray(self._spread @ np.ones(len(self._places)))
        self._source, self._boundaries = source, boundaries
        crossing = np.zeros(len(mesh.points))
        for name, transfer in boundaries.transfer.items():
            ends = mesh.points[mesh.boundary[name]]
            halves = 0.5 * transfer * np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)
            crossing += np.bincount(mesh.boundary[name].T.ravel(), np.tile(halves, 2), len(mesh.points))
        self._inflow = boundaries.ambient * crossing
        self._stiffness = sparse.csr_matrix(elements.matrix(blocks[:, :, None, :, None]) + sparse.diags(crossing))
        self._held = np.unique(
            np.concatenate([np.zeros(0, dtype=int), *(mesh.boundary[name].ravel() for name in boundaries.held)])
        )
        self._held_places = mesh.points[self._held]
        self._free = np.setdiff1d(np.arange(len(mesh.points)), self._held)
        free_rows = sparse.csc_matrix(self._stiffness[self._free])
        self._inner, self._from_held = free_rows[:, self._free], free_rows[:, self._held]
        self._length, self._factors = 0.0, None

    def start(self, temperature: np.ndarray, time: float = 0.0) -> None:
        """From (point,) temperatures."""
        self.time, self.temperature = time, np.array(temperature, dtype=np.float64)
        self.temperature[self._held] = self._boundaries.temperature(self._held_places, time)
        self._load = self.load(time)

    def load(self, time: float) -> np.ndarray:
        """(point,) the heat that comes to each per time, from the source and from what surrounds the plate."""
        return self._spread @ self._source(self._places, time) + self._inflow

    @property
    def heat(self) -> float:
        """∫ρcT dx."""
        return float(self.mass @ self.temperature)

    def step(self, length: float) -> None:
        if self._factors is None or length != self._length:
            matrix = sparse.diags(self.mass[self._free]) + 0.5 * _SHARE * length * self._inner
            self._length, self._factors = length, factors(matrix)
        half = 0.5 * _SHARE * length
        coming = half * (self._load - self._stiffness @ self.temperature)
        middle, _ = self._solved(self._factors, self.mass * self.temperature + coming, self.time + _SHARE * length)
        past = self.mass * (_INNER * middle + (1 - _INNER) * self.temperature)
        self.time += length
        self.temperature, self._load = self._solved(self._factors, past, self.time)

    def _solved(self, found: SuperLU, right: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray]:
        """T of (M + ½γΔt K)T = right + ½γΔt load, and that load."""
        half, load = 0.5 * _SHARE * self._length, self.load(time)
        temperature = np.empty_like(right)
        temperature[self._held] = self._boundaries.temperature(self._held_places, time)
        rest = (right + half * load)[self._free] - half * (self._from_held @ temperature[self._held])
        temperature[self._free] = found.solve(rest)
        return temperature, load
