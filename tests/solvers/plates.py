"""Plates for heat conduction: a rectangle with and without a hole, a ring, and a manufactured solution on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calm_pde.geometry import tensor_grid
from calm_pde.solvers.mesh.distmesh import circle, spaced, triangulate, without
from calm_pde.solvers.mesh.perforated import Perforated
from calm_pde.solvers.mesh.triangles import TriangleMesh, boundary_edges
from calm_pde.solvers.methods.conduction import Conduction

LENGTH, HEIGHT = 2.0, 1.0
MIDDLE, RADIUS = (0.9, 0.5), 0.25


class Plate(Perforated):
    """2 × 1 with a hole of radius ¼, edges of 0.1 times the scale."""

    names = ("rest", "rest", "rest", "wall", "hole")

    def size(self, points: np.ndarray) -> np.ndarray:
        return np.full(len(points), 0.1)


def with_hole(scale: float) -> TriangleMesh:
    return Plate(MIDDLE, RADIUS, LENGTH, HEIGHT).mesh(scale, np.random.default_rng(0))


def without_hole(count: int) -> TriangleMesh:
    """2·count × count squares, each cut in two triangles."""
    points = tensor_grid(np.linspace(0, LENGTH, 2 * count + 1), np.linspace(0, HEIGHT, count + 1))
    number = np.arange(len(points)).reshape(2 * count + 1, count + 1)
    one, two, three, four = (part.ravel() for part in (number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]))
    cells = np.concatenate([np.stack([one, two, three], axis=1), np.stack([one, three, four], axis=1)])
    edges = boundary_edges(cells)
    left = (points[edges, 0] == 0).all(axis=1)
    return TriangleMesh(points, cells, {"wall": edges[left], "rest": edges[~left]})


def ring(scale: float) -> TriangleMesh:
    """Between radii ½ and 1, edges of 0.1 times the scale."""
    size = lambda points: np.full(len(points), 0.1 * scale)  # noqa: E731
    turn = lambda part: np.stack([np.cos(2 * np.pi * part), np.sin(2 * np.pi * part)], axis=1)  # noqa: E731
    outer, inner = spaced(turn, size)[:-1], spaced(lambda part: 0.5 * turn(part), size)[:-1]
    region = without(circle((0.0, 0.0), 1.0), circle((0.0, 0.0), 0.5))
    points, cells = triangulate(np.concatenate([outer, inner]), region, size, np.random.default_rng(0))
    edges = boundary_edges(cells)
    inside = (np.linalg.norm(points[edges], axis=2) < 0.75).all(axis=1)
    return TriangleMesh(points, cells, {"inner": edges[inside], "outer": edges[~inside]})


@dataclass(frozen=True)
class MovingBump:
    """T = D G, D = 4d², G = exp(−|s|²/0.18), s = x − (0.3 + t, 0.3): d from the hole's edge, so that T is level there."""

    conductivity: float
    capacity: float

    def __call__(self, places: np.ndarray, time: float) -> np.ndarray:
        away, _, gaussian, _ = self._parts(places, time)
        return 4 * away**2 * gaussian

    def source(self, places: np.ndarray, time: float) -> np.ndarray:
        """ρc ∂T/∂t − kΔT, ΔT = DΔG + 2∇D·∇G + GΔD, r from the hole's middle."""
        away, outward, gaussian, shift = self._parts(places, time)
        far = away + RADIUS
        change = 4 * away**2 * shift[:, 0] / 0.09
        bent = 4 * away**2 * (np.square(shift).sum(axis=1) / 0.09**2 - 2 / 0.09)
        mixed = -2 * 8 * away * (outward * shift).sum(axis=1) / 0.09
        return gaussian * (self.capacity * change - self.conductivity * (bent + mixed + 8 + 8 * away / far))

    @staticmethod
    def _parts(places: np.ndarray, time: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """d, its gradient, G and s."""
        arm, shift = places - MIDDLE, places - [0.3 + time, 0.3]
        far = np.linalg.norm(arm, axis=1)
        return far - RADIUS, arm / far[:, None], np.exp(-np.square(shift).sum(axis=1) / 0.18), shift


def relative_l2(conduction: Conduction, exact: np.ndarray) -> float:
    """Of the temperature, points weighted by their mass."""
    wrong = conduction.temperature - exact
    return float(np.sqrt((conduction.mass @ wrong**2) / (conduction.mass @ exact**2)))


def marched(conduction: Conduction, start: np.ndarray, end: float, steps: int) -> Conduction:
    conduction.start(start)
    for _ in range(steps):
        conduction.step(end / steps)
    return conduction
