"""Flow past a cylinder in a channel, started impulsively, on a new triangular mesh for every sample."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pydantic

from calm_pde.geometry import Box
from calm_pde.records.description import Description, Field
from calm_pde.records.symmetry import Symmetry, Turned
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.mesh.named import Boundary, NamedMesh, check_boundary, own_mesh
from calm_pde.solvers.mesh.perforated import Perforated, Range, check_room
from calm_pde.solvers.mesh.triangles import edges, node_types
from calm_pde.solvers.methods.incompressible import Flow
from calm_pde.solvers.methods.inlet import Inlet
from calm_pde.solvers.methods.time_steps import whole_steps
from calm_pde.solvers.problem import Problem
from calm_pde.solvers.scales import Scale

NODE_TYPES = {0: "normal", 4: "inflow", 5: "outflow", 6: "wall"}
CODES = {"outflow": 5, "inflow": 4, "wall": 6, "cylinder": 6}
"""Of the boundaries; where two meet, the later one counts: nothing moves on a wall."""
ROLES = ("inflow", "outflow", "wall")

_LENGTH, _HEIGHT = 1.6, 0.41
_AT_BODY, _OF_RADIUS, _GROWTH, _FAR = 0.007, 0.17, 0.08, 0.03  # edge lengths before they are scaled to the number of points

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


@dataclass(frozen=True)
class Channel(Perforated):
    """[0, length] × [0, height] without a disk; the flow comes in at x = 0."""

    length: float = _LENGTH
    height: float = _HEIGHT

    names: ClassVar[tuple[str, str, str, str, str]] = ("wall", "outflow", "wall", "inflow", "cylinder")

    def size(self, points: np.ndarray) -> np.ndarray:
        """Edge lengths min(h_body + 0.08·d, 0.03), h_body = min(0.007, 0.17·radius), up to one factor for all.

        d is the distance from the cylinder, lengths downstream of its middle counted half, for the wake's sake.
        """
        across = points - np.array(self.center)
        across[:, 0] *= np.where(across[:, 0] > 0, 0.5, 1.0)
        away = np.maximum(np.linalg.norm(across, axis=1) - self.radius, 0.0)
        return np.minimum(min(_AT_BODY, _OF_RADIUS * self.radius) + _GROWTH * away, _FAR)

    @property
    def inlet(self) -> Inlet:
        """The whole left side."""
        return Inlet((0.0, self.height), (0.0, 0.0))


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
    viscosity: Scale = 1e-3
    """ν in m²/s; a range low:high gives every trajectory its own, as a parameter."""
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
    """A triangle mesh file (.msh, .su2, .vtu, …; extra `mesh`) of any channel to use instead; then only the inflow differs."""
    boundary: Boundary = ()
    """ROLE=NAME for the boundaries of the mesh, roles inflow, outflow and wall; a role left out is its own name."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Cylinder:
        check_boundary(self.mesh, self.boundary, ROLES)
        for name in ("center_x", "center_y", "radius", "inflow"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"{name}: expected 0 < lower ≤ upper, got {low:g}, {high:g}")
        for name, extent in (("center_x", _LENGTH), ("center_y", _HEIGHT)):
            check_room(name, getattr(self, name), extent, self.radius[1], self.clearance)
        return self

    def description(self) -> Description:
        speed = (Field(name="velocity_x", unit="m/s"), Field(name="velocity_y", unit="m/s"))
        own = self._own_mesh
        return Description(
            name="cylinder",
            fields=(*speed, Field(name="pressure", unit="Pa")),
            box=Box((0.0, 0.0), (_LENGTH, _HEIGHT)) if own is None else own.box,
            times=self._times(),
            points=None if own is None else own.points,
            cells=None if own is None else own.cells,
            node_type=None if own is None else own.node_types(CODES)[0],
            node_types=NODE_TYPES if own is None else own.node_types(CODES)[1],
            parameters=(*(("center_x", "center_y", "radius", "inflow") if own is None else ("inflow",)), *self.ranged),
            units=dict.fromkeys(self.ranged, "m²/s"),
            symmetries=self.symmetric(SYMMETRIES) if own is None else (),
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
        viscosity = self.number("viscosity", draw)
        if self._own_mesh is not None:
            mesh, peak = self._own_mesh, draw.uniform(*self.inflow)
            ends = mesh.points[edges(mesh.cells)[0]]
            shortest = float(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1).min())
            flow = Inlet.of(mesh).flow(mesh, viscosity, peak)
            return Trajectory(self._frames(flow, peak, shortest), parameters=self.parameters(draw, peak))
        ranges = (self.center_x, self.center_y, self.radius, self.inflow)
        x, y, radius, peak = own = [draw.uniform(low, high) for low, high in ranges]
        channel = Channel((x, y), radius)
        scale = channel.scale(self.points)
        mesh = channel.mesh(scale, draw)
        around = float(scale * channel.size(np.array([channel.center]))[0])
        return Trajectory(
            fields=self._frames(channel.inlet.flow(mesh, viscosity, peak), peak, around),
            points=mesh.points,
            cells=mesh.cells.astype(np.int32),
            node_type=node_types(mesh, CODES),
            parameters=self.parameters(draw, *own),
        )

    def _frames(self, flow: Flow, peak: float, edge: float) -> np.ndarray:
        """(time, point, 3) with steps in which the peak crosses no more than the edge length, times the Courant number."""
        longest = np.array(min(self.time_step, self.courant * edge / peak))
        fields = np.empty((self.frames, len(flow.space.mesh.points), 3), dtype=np.float32)
        for frame, gap in enumerate(np.diff(self._times(), prepend=0.0)):
            steps = int(whole_steps(np.array(gap), longest))
            for _ in range(steps):
                flow.step(gap / steps)
            fields[frame] = flow.vertex_fields()
        return fields

    @property
    def _own_mesh(self) -> NamedMesh | None:
        return own_mesh(self.mesh, self.boundary, ROLES) if self.mesh else None

    def _times(self) -> np.ndarray:
        return self.first_time + self.spacing * np.arange(self.frames)
