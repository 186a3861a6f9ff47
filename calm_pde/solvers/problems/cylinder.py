"""Flow past a cylinder in a channel, started impulsively, on a new triangular mesh for every sample."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import numpy as np
import pydantic
import tyro

from calm_pde.geometry import Box, cell_centers, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.symmetry import Symmetry, Turned
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.mesh.distmesh import OfPoints, circle, rectangle, spaced, triangulate, without
from calm_pde.solvers.mesh.named import read_named
from calm_pde.solvers.mesh.triangles import TriangleMesh, edges, node_types
from calm_pde.solvers.methods.inlet import Inlet
from calm_pde.solvers.methods.time_steps import whole_steps
from calm_pde.solvers.problem import Problem

NODE_TYPES = {0: "normal", 4: "inflow", 5: "outflow", 6: "wall"}
CODES = {"outflow": 5, "inflow": 4, "wall": 6, "cylinder": 6}
"""Of the boundaries; where two meet, the later one counts: nothing moves on a wall."""
ROLES = ("inflow", "outflow", "wall")

_LENGTH, _HEIGHT = 1.6, 0.41
_AT_BODY, _OF_RADIUS, _GROWTH, _FAR = 0.007, 0.17, 0.08, 0.03  # edge lengths before they are scaled to the number of points
_FEWEST_AROUND = 12

SYMMETRIES = (
    Symmetry(
        name="reflection across the channel",
        axes=(1, -2),
        shift=(0.0, _HEIGHT),
        fields=(1, -2, 3),
        conditions={
            "center_x": Turned(of="center_x"),
            "center_y": Turned(of="center_y", sign=-1, plus=_HEIGHT),
            "radius": Turned(of="radius"),
            "inflow": Turned(of="inflow"),
        },
    ),
)
"""The parabola of the inflow is its own mirror image; with a mesh of the user's nothing is known."""

Range = tuple[float, float]


@dataclass(frozen=True)
class Channel:
    """[0, length] × [0, height] without a disk; the flow comes in at x = 0."""

    center: tuple[float, float]
    radius: float
    length: float = _LENGTH
    height: float = _HEIGHT

    def size(self, points: np.ndarray) -> np.ndarray:
        """Edge lengths min(h_body + 0.08·d, 0.03), h_body = min(0.007, 0.17·radius), up to one factor for all.

        d is the distance from the cylinder, lengths downstream of its middle counted half, for the wake's sake.
        """
        across = points - np.array(self.center)
        across[:, 0] *= np.where(across[:, 0] > 0, 0.5, 1.0)
        away = np.maximum(np.linalg.norm(across, axis=1) - self.radius, 0.0)
        return np.minimum(min(_AT_BODY, _OF_RADIUS * self.radius) + _GROWTH * away, _FAR)

    def scale(self, points: int) -> float:
        """The factor s on edge lengths h that gives about this many points: ∫2/(√3 s²h²) dA + ½∮ds/(sh) of them."""
        rows = round(600 * self.height / self.length)
        grid = tensor_grid(self.length * cell_centers(600), self.height * cell_centers(rows))
        inside = grid[self.region()(grid) < 0]
        spread = (2 / np.sqrt(3) / self.size(inside) ** 2).sum() * self.length * self.height / len(grid)
        along = 0.5 * sum(len(curve) for curve in self._curves(1.0))
        return float((along + np.sqrt(along**2 + 4 * points * spread)) / (2 * points))

    def region(self) -> OfPoints:
        """Its signed distance."""
        return without(rectangle((0.0, 0.0), (self.length, self.height)), circle(self.center, self.radius))

    def mesh(self, scale: float, draw: np.random.Generator) -> TriangleMesh:
        """Graded triangles with boundaries inflow, outflow, wall and cylinder; the points of the boundary come first."""
        curves = self._curves(scale)
        ends = np.cumsum([len(curve) for curve in curves])
        starts = ends - [len(curve) for curve in curves]
        after = np.arange(1, ends[-1] + 1)
        after[ends[3] - 1], after[ends[4] - 1] = 0, ends[3]  # the outer loop and the circle close
        loop = np.stack([np.arange(ends[-1]), after], axis=1)
        below, outflow, above, inflow, cylinder = (loop[start:end] for start, end in zip(starts, ends, strict=True))
        fixed = np.concatenate(curves)
        points, cells = triangulate(fixed, self.region(), lambda places: scale * self.size(places), draw)
        wall = np.concatenate([below, above])
        return TriangleMesh(points, cells, {"inflow": inflow, "outflow": outflow, "wall": wall, "cylinder": cylinder})

    @property
    def inlet(self) -> Inlet:
        """The whole left side."""
        return Inlet((0.0, self.height), (0.0, 0.0))

    def _curves(self, scale: float) -> list[np.ndarray]:
        """Points along bottom, outflow, top, inflow and circle, each without its last."""

        def size(places: np.ndarray) -> np.ndarray:
            return scale * self.size(places)

        corners = np.array([[0.0, 0.0], [self.length, 0.0], [self.length, self.height], [0.0, self.height]])
        ends = zip(corners, np.roll(corners, -1, axis=0), strict=True)
        sides = [spaced(lambda part, a=a, b=b: a + part[:, None] * (b - a), size)[:-1] for a, b in ends]

        def around(part: np.ndarray) -> np.ndarray:
            angle = 2 * np.pi * part
            return np.array(self.center) + self.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)

        return [*sides, spaced(around, size, _FEWEST_AROUND)[:-1]]


class Cylinder(Problem):
    """u_t + u·∇u = νΔu − ∇p, ∇·u = 0, density 1, in a channel of 1.6 × 0.41 m around a cylinder, from an impulsive start."""

    points: int = pydantic.Field(default=1900, ge=150)
    """About how many points a mesh has; velocity is solved on their edges' midpoints too."""
    frames: int = pydantic.Field(default=15, ge=2)
    """Stored times."""
    spacing: float = pydantic.Field(default=0.4, gt=0)
    """Seconds between stored frames."""
    first_time: float = pydantic.Field(default=0.01, gt=0)
    """Seconds from the impulsive start to the first frame; at the start itself no pressure is defined."""
    viscosity: float = pydantic.Field(default=1e-3, gt=0)
    """ν in m²/s."""
    center_x: Range = (0.15, 0.5)
    """Range of the cylinder's middle along the channel."""
    center_y: Range = (0.1, 0.3)
    """Range of the cylinder's middle across the channel."""
    radius: Range = (0.02, 0.08)
    """Range of the cylinder's radius."""
    inflow: Range = (0.25, 2.25)
    """Range of the peak of the parabolic inflow, m/s."""
    clearance: float = pydantic.Field(default=0.02, gt=0)
    """The least gap between the cylinder and the edges of the channel that the ranges may allow."""
    courant: float = pydantic.Field(default=1.0, gt=0)
    """The longest step, in edge lengths at the cylinder per peak of the inflow; advection is implicit."""
    time_step: float = pydantic.Field(default=0.01, gt=0)
    """The longest step in seconds."""
    mesh: str = ""
    """A triangle mesh file (.msh, .vtu, …; extra `mesh`) of any channel to use instead; then only the inflow differs."""
    boundary: Annotated[tuple[str, ...], tyro.conf.UseAppendAction] = ()
    """ROLE=NAME for the boundaries of the mesh, roles inflow, outflow and wall; a role left out is its own name."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Cylinder:
        for entry in self.boundary:
            if entry.partition("=")[0] not in ROLES or not entry.partition("=")[2]:
                raise ValueError(f"boundary: expected ROLE=NAME with a role of {', '.join(ROLES)}, got {entry!r}")
        if self.boundary and not self.mesh:
            raise ValueError("boundary: expected none without a mesh, got some. Name the file with mesh")
        for name in ("center_x", "center_y", "radius", "inflow"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"{name}: expected 0 < lower ≤ upper, got {low:g}, {high:g}")
        for name, extent in (("center_x", _LENGTH), ("center_y", _HEIGHT)):
            low, high = getattr(self, name)
            room = self.radius[1] + self.clearance - 1e-9
            if low < room or high > extent - room:
                raise ValueError(
                    f"{name}: expected a range within {room:g}, {extent - room:g}, so that every cylinder of radius up to "
                    f"{self.radius[1]:g} keeps a clearance of {self.clearance:g}, got {low:g}, {high:g}"
                )
        return self

    def description(self) -> Description:
        speed = (Field(name="velocity_x", unit="m/s"), Field(name="velocity_y", unit="m/s"))
        own = self._own_mesh
        lower, upper = (0.0, 0.0), (_LENGTH, _HEIGHT)
        if own is not None:
            lower, upper = (tuple(corner.tolist()) for corner in (own.points.min(axis=0), own.points.max(axis=0)))
        return Description(
            name="cylinder",
            fields=(*speed, Field(name="pressure", unit="Pa")),
            box=Box(lower, upper),
            times=self._times(),
            points=None if own is None else own.points,
            cells=None if own is None else own.cells,
            node_type=None if own is None else node_types(own, CODES),
            node_types=NODE_TYPES,
            parameters=("center_x", "center_y", "radius", "inflow") if own is None else ("inflow",),
            symmetries=SYMMETRIES if own is None else (),
            provenance={
                "solver": "Taylor–Hood elements, BDF2 with extrapolated advection, incremental pressure correction",
                "settings": self.model_dump(),
            },
        )

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        for draw in draws:
            start = time.perf_counter()
            yield replace(self._drawn(draw), seconds=time.perf_counter() - start)

    def _drawn(self, draw: np.random.Generator) -> Trajectory:
        if self._own_mesh is not None:
            mesh, peak = self._own_mesh, draw.uniform(*self.inflow)
            ends = mesh.points[edges(mesh.cells)[0]]
            shortest = float(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1).min())
            return Trajectory(self._frames(Inlet.of(mesh), mesh, peak, shortest), parameters=np.array([peak]))
        ranges = (self.center_x, self.center_y, self.radius, self.inflow)
        x, y, radius, peak = parameters = [draw.uniform(low, high) for low, high in ranges]
        channel = Channel((x, y), radius)
        scale = channel.scale(self.points)
        mesh = channel.mesh(scale, draw)
        around = float(scale * channel.size(np.array([channel.center]))[0])
        return Trajectory(
            fields=self._frames(channel.inlet, mesh, peak, around),
            points=mesh.points,
            cells=mesh.cells.astype(np.int32),
            node_type=node_types(mesh, CODES),
            parameters=np.array(parameters),
        )

    def _frames(self, inlet: Inlet, mesh: TriangleMesh, peak: float, edge: float) -> np.ndarray:
        """(time, point, 3) with steps in which the peak crosses no more than the edge length, times the Courant number."""
        flow = inlet.flow(mesh, self.viscosity, peak)
        longest = np.array(min(self.time_step, self.courant * edge / peak))
        fields = np.empty((self.frames, len(mesh.points), 3), dtype=np.float32)
        for frame, gap in enumerate(np.diff(self._times(), prepend=0.0)):
            steps = int(whole_steps(np.array(gap), longest))
            for _ in range(steps):
                flow.step(gap / steps)
            fields[frame] = flow.vertex_fields()
        return fields

    @property
    def _own_mesh(self) -> TriangleMesh | None:
        return _read(self.mesh, self.boundary) if self.mesh else None

    def _times(self) -> np.ndarray:
        return self.first_time + self.spacing * np.arange(self.frames)


@lru_cache(maxsize=1)
def _read(path: str, boundary: tuple[str, ...]) -> TriangleMesh:
    """The user's mesh, read once per process."""
    pairs = [entry.partition("=")[::2] for entry in boundary]
    return read_named(Path(path), {role: tuple(name for of, name in pairs if of == role) for role in ROLES})
