"""The benchmarks of Schäfer and Turek (1996): laminar flow past a cylinder, 2D-1 steady and 2D-2 with a vortex street."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calm_pde.solvers.problems.cylinder import Channel
from tests.solvers.divergence import relative_divergence

STEADY = {"drag": 5.57953523384, "lift": 0.010618948146, "pressure_difference": 0.11752016697}
CHANNEL = Channel((0.2, 0.2), 0.05, length=2.2)
DIAMETER, VISCOSITY = 0.1, 1e-3


@dataclass(frozen=True)
class History:
    """Coefficients over time, one entry per step."""

    points: int
    times: np.ndarray
    drag: np.ndarray
    lift: np.ndarray
    pressure_difference: np.ndarray
    divergence: float

    def last(self, seconds: float) -> History:
        kept = self.times > self.times[-1] - seconds
        arrays = (self.times, self.drag, self.lift, self.pressure_difference)
        return History(self.points, *(array[kept] for array in arrays), self.divergence)

    def strouhal(self, mean_speed: float) -> float:
        """Frequency of the lift by its upward zero crossings, times diameter over mean speed."""
        up = np.flatnonzero((self.lift[:-1] < 0) & (self.lift[1:] >= 0))
        part = -self.lift[up] / (self.lift[up + 1] - self.lift[up])
        crossings = self.times[up] + part * (self.times[up + 1] - self.times[up])
        return float((len(crossings) - 1) / (crossings[-1] - crossings[0]) * DIAMETER / mean_speed)


def benchmark(points: int, peak: float, step: float, end: float) -> History:
    """The channel of the benchmark, from the impulsive start."""
    mesh = CHANNEL.mesh(CHANNEL.scale(points), np.random.default_rng(0))
    flow = CHANNEL.inlet.flow(mesh, VISCOSITY, peak)
    ring = mesh.boundary["cylinder"][:, 0]
    angles = np.arctan2(*(mesh.points[ring] - CHANNEL.center).T[::-1]) % (2 * np.pi)
    scale = 2 / ((2 * peak / 3) ** 2 * DIAMETER)
    rows = []
    for _ in range(round(end / step)):
        flow.step(step)
        front, back = np.interp([np.pi, 0.0], angles, flow.pressure[ring], period=2 * np.pi)
        rows.append([flow.time, *(scale * flow.force("cylinder")), front - back])
    return History(len(mesh.points), *np.array(rows).T, relative_divergence(flow.space, flow.velocity))
