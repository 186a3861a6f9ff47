"""A rectangle without a disk: its triangles, of sizes that a problem wants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from calm_pde.geometry import cell_centers, tensor_grid
from calm_pde.solvers.mesh.distmesh import LONGEST, OfPoints, circle, rectangle, spaced, triangulate, without
from calm_pde.solvers.mesh.triangles import TriangleMesh

_FEWEST_AROUND = 12

Range = tuple[float, float]


@dataclass(frozen=True)
class Perforated(ABC):
    """[0, length] × [0, height] without a disk."""

    center: tuple[float, float]
    radius: float
    length: float
    height: float

    names: ClassVar[tuple[str, str, str, str, str]]
    """Of the boundary: bottom, right, top, left, circle; those of one name are one."""
    longest: ClassVar[int] = LONGEST
    """Rounds in which points find their places: fewer are faster, and triangles a little less even."""
    across: ClassVar[int] = 600
    """Cells along the length by which areas are measured."""

    @abstractmethod
    def size(self, points: np.ndarray) -> np.ndarray:
        """(point,) edge lengths, up to one factor for all."""

    def scale(self, points: int) -> float:
        """The factor s on edge lengths h that gives about this many points: ∫2/(√3 s²h²) dA + ½∮ds/(sh) of them."""
        rows = round(self.across * self.height / self.length)
        grid = tensor_grid(self.length * cell_centers(self.across), self.height * cell_centers(rows))
        inside = grid[self.region()(grid) < 0]
        spread = (2 / np.sqrt(3) / self.size(inside) ** 2).sum() * self.length * self.height / len(grid)
        along = 0.5 * sum(len(curve) for curve in self._curves(1.0))
        return float((along + np.sqrt(along**2 + 4 * points * spread)) / (2 * points))

    def region(self) -> OfPoints:
        """Its signed distance."""
        return without(rectangle((0.0, 0.0), (self.length, self.height)), circle(self.center, self.radius))

    def mesh(self, scale: float, draw: np.random.Generator) -> TriangleMesh:
        """Graded triangles with named boundaries; the points of the boundary come first."""
        curves = self._curves(scale)
        ends = np.cumsum([len(curve) for curve in curves])
        starts = ends - [len(curve) for curve in curves]
        after = np.arange(1, ends[-1] + 1)
        after[ends[3] - 1], after[ends[4] - 1] = 0, ends[3]  # the outer loop and the circle close
        loop = np.stack([np.arange(ends[-1]), after], axis=1)
        parts = [loop[start:end] for start, end in zip(starts, ends, strict=True)]

        def size(places: np.ndarray) -> np.ndarray:
            return scale * self.size(places)

        points, cells = triangulate(np.concatenate(curves), self.region(), size, draw, self.longest)
        named: dict[str, list[np.ndarray]] = {}
        for name, part in zip(self.names, parts, strict=True):
            named.setdefault(name, []).append(part)
        return TriangleMesh(points, cells, {name: np.concatenate(found) for name, found in named.items()})

    def _curves(self, scale: float) -> list[np.ndarray]:
        """Points along bottom, right, top, left and circle, each without its last."""

        def size(places: np.ndarray) -> np.ndarray:
            return scale * self.size(places)

        corners = np.array([[0.0, 0.0], [self.length, 0.0], [self.length, self.height], [0.0, self.height]])
        ends = zip(corners, np.roll(corners, -1, axis=0), strict=True)
        sides = [spaced(lambda part, a=a, b=b: a + part[:, None] * (b - a), size)[:-1] for a, b in ends]

        def around(part: np.ndarray) -> np.ndarray:
            angle = 2 * np.pi * part
            return np.array(self.center) + self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)

        return [*sides, spaced(around, size, _FEWEST_AROUND)[:-1]]


def check_room(name: str, along: Range, extent: float, radius: float, clearance: float) -> None:
    """Every disk of this radius whose middle lies in the range keeps the clearance from both ends of the extent."""
    low, high = along
    room = radius + clearance - 1e-9
    if low < room or high > extent - room:
        raise ValueError(
            f"{name}: expected a range within {room:g}, {extent - room:g}, so that every circle of radius up to {radius:g} "
            f"keeps a clearance of {clearance:g}, got {low:g}, {high:g}"
        )
