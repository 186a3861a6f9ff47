"""A straight inlet with a parabolic profile, and the flow that it starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calm_pde.errors import InputError
from calm_pde.solvers.mesh.triangles import TriangleMesh, boundary_edges
from calm_pde.solvers.methods.incompressible import Boundary, Flow

_STRAIGHT = 1e-6  # of an inlet's length: how far its points may lie beside it


@dataclass(frozen=True)
class Inlet:
    """The line from start to end, the region to its left, entered at right angles with speed 4·peak·s(1 − s), s ∈ [0, 1]."""

    start: tuple[float, float]
    end: tuple[float, float]

    @classmethod
    def of(cls, mesh: TriangleMesh, name: str = "inflow") -> Inlet:
        """The inlet that a named boundary is; it must be straight."""
        named = {tuple(sorted(edge)) for edge in mesh.boundary[name].tolist()}
        around = [edge for edge in boundary_edges(mesh.cells).tolist() if tuple(sorted(edge)) in named]
        ends = mesh.points[np.array(around)]
        steps, places = ends[:, 1] - ends[:, 0], ends.reshape(-1, 2)
        direction = steps.sum(axis=0)
        along = places @ direction
        first, last = (tuple(places[chosen].tolist()) for chosen in (along.argmin(), along.argmax()))
        if np.linalg.norm(steps, axis=1).sum() > (1 + _STRAIGHT) * np.hypot(last[0] - first[0], last[1] - first[1]):
            fix = "Give the flow one straight inlet; name the rest wall or outflow."
            raise InputError(f"boundary {name}", expected="one straight line", got="a bent or closed one", fix=fix)
        return cls(first, last)

    def profile(self, places: np.ndarray, peak: float) -> np.ndarray:
        """(point, 2) velocities as if the inlet's were carried on straight into the region; none beside."""
        share, _ = self._coordinates(places)
        (x, y), (u, v) = self.start, self.end
        inward = np.array([y - v, u - x]) / np.hypot(u - x, v - y)
        return np.maximum(4 * peak * share * (1 - share), 0.0)[:, None] * inward

    def given(self, peak: float) -> Boundary:
        """The profile on the inlet and rest elsewhere."""

        def velocity(places: np.ndarray, _: float) -> np.ndarray:
            beside = self._coordinates(places)[1]
            return np.where((np.abs(beside) <= _STRAIGHT)[:, None], self.profile(places, peak), 0.0)

        return velocity

    def flow(self, mesh: TriangleMesh, viscosity: float, peak: float) -> Flow:
        """The impulsive start: the profile everywhere, but at rest on walls and free of divergence."""
        flow = Flow(mesh, viscosity, self.given(peak))
        flow.start(self.profile(flow.space.points, peak))
        return flow

    def _coordinates(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Along the inlet and across it, in its lengths."""
        start, end = np.array(self.start), np.array(self.end)
        along = (end - start) / np.square(end - start).sum()
        return (places - start) @ along, (places - start) @ np.array([-along[1], along[0]])
