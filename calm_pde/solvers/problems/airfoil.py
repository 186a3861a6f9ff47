"""Compressible flow around an airfoil, started impulsively, on one triangular mesh for all samples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pydantic

from calm_pde.errors import InputError
from calm_pde.geometry import Box
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.mesh.graded import airfoil_mesh, require_netgen
from calm_pde.solvers.mesh.named import Boundary, NamedMesh, check_boundary, own_mesh
from calm_pde.solvers.mesh.section import Section
from calm_pde.solvers.mesh.triangles import node_types
from calm_pde.solvers.methods.dual_mesh import DualMesh
from calm_pde.solvers.methods.euler import Euler
from calm_pde.solvers.methods.gas import GAMMA, entropy, free_stream, primitive
from calm_pde.solvers.methods.implicit import BlockSystem, Unsteady
from calm_pde.solvers.methods.time_steps import whole_steps
from calm_pde.solvers.problem import Problem

NODE_TYPES = {0: "normal", 2: "airfoil", 4: "inflow"}
CODES = {"inflow": 4, "airfoil": 2}
"""Of the boundaries; the whole far field counts as inflow."""
ROLES = ("inflow", "airfoil")

DENSITY, PRESSURE = 1.225, 101325.0
"""Of the free stream in kg/m³ and Pa: air at 15 °C; the chord is 1 m."""

_RADIUS = 20.0
_SOUND = float(np.sqrt(GAMMA * PRESSURE / DENSITY))
_PUBLISHED = 0.32 / 2.4  # what the published set calls a second, per time that sound needs for one chord
_MOST_UNSOLVED = 0.4  # of a step's first residual
_LEAST_ENTROPY = 0.5  # p/ρ^γ over that of the free stream, which no flow can fall below
_HALVINGS, _MOST_DRAWS = 2, 20

Range = tuple[float, float]


class Airfoil(Problem):
    """∂U/∂t + ∇·F(U) = 0, the Euler equations, around NACA 0012 from an impulsive start, the far field 20 chords away."""

    points: int = pydantic.Field(default=5200, ge=300)
    """About how many points the mesh has; all are stored."""
    frames: int = pydantic.Field(default=16, ge=2)
    """Stored times."""
    spacing: float = pydantic.Field(default=2.4, gt=0)
    """Between stored frames, in times that sound needs for one chord (2.9 ms)."""
    first_time: float = pydantic.Field(default=0.06, gt=0)
    """From the impulsive start to the first frame, in the same unit."""
    clock: Literal["published", "seconds"] = "published"
    """Of the file's times: as the published set counts, 0.32 from frame to frame by default, or true seconds, 7 ms."""
    mach: Range = (0.2, 0.7)
    """Range of the free stream's Mach number."""
    angle: Range = (-25.0, 25.0)
    """Range of the angle of attack in degrees."""
    time_step: float = pydantic.Field(default=0.2, gt=0)
    """The longest step, in the unit of `spacing`; halved up to twice where a step is not solved well."""
    mesh: str = ""
    """A triangle mesh file (.msh, .su2, .vtu, …; extra `mesh`) around any body to use instead, in chords; all points count."""
    boundary: Boundary = ()
    """ROLE=NAME for the boundaries of the mesh, roles airfoil and inflow (the far field); a role left out is its own name."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Airfoil:
        for name, lowest, highest in (("mach", 0.05, 0.95), ("angle", -45.0, 45.0)):
            low, high = getattr(self, name)
            if not lowest <= low <= high <= highest:
                raise ValueError(f"{name}: expected {lowest:g} ≤ lower ≤ upper ≤ {highest:g}, got {low:g}, {high:g}")
        check_boundary(self.mesh, self.boundary, ROLES)
        if not self.mesh:
            require_netgen()
        return self

    @pydantic.model_serializer(mode="wrap")
    def _without_no_mesh(self, written: Callable[[Airfoil], dict[str, Any]]) -> dict[str, Any]:
        """A mesh stands in a file only where there is one: without, files are what they were before there could be any."""
        content = written(self)
        return content if self.mesh else {name: value for name, value in content.items() if name not in ("mesh", "boundary")}

    def description(self) -> Description:
        speed = (Field(name="velocity_x", unit="m/s"), Field(name="velocity_y", unit="m/s"))
        mesh = self._prepared()[0].mesh
        own = isinstance(mesh, NamedMesh)
        unit = _PUBLISHED if self.clock == "published" else 1 / _SOUND
        return Description(
            name="airfoil",
            fields=(*speed, Field(name="density", unit="kg/m³"), Field(name="pressure", unit="Pa")),
            box=mesh.box if own else Box((-_RADIUS, -_RADIUS), (_RADIUS, _RADIUS)),
            times=unit * self.spacing * np.arange(self.frames),
            points=mesh.points,
            cells=mesh.cells.astype(np.int32),
            node_type=mesh.node_types(CODES)[0] if own else node_types(mesh, CODES),
            node_types=mesh.node_types(CODES)[1] if own else NODE_TYPES,
            parameters=("mach", "angle", "rejected_draws"),
            provenance={
                "solver": "Euler equations: finite volumes around the points of triangles, Roe's flux, BDF2",
                "settings": self.model_dump(),
            },
        )

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        for draw in draws:
            start = time.perf_counter()
            fields, parameters = self._drawn(draw)
            yield Trajectory(fields, parameters=np.array(parameters), seconds=time.perf_counter() - start)

    def _drawn(self, draw: np.random.Generator) -> tuple[np.ndarray, tuple[float, float, float]]:
        """The first draw that can be solved."""
        for rejected in range(_MOST_DRAWS):
            mach, angle = draw.uniform(*self.mach), draw.uniform(*self.angle)
            for halvings in range(_HALVINGS + 1):
                fields = self.flow(mach, angle, self.time_step / 2**halvings)
                if fields is not None:
                    return fields, (mach, angle, float(rejected))
        raise InputError(
            "mach, angle",
            expected="ranges with flows that can be solved",
            got=f"{_MOST_DRAWS} draws without one",
            fix="Take lower Mach numbers, smaller angles, or a shorter time_step.",
        )

    def flow(self, mach: float, angle: float, longest: float) -> np.ndarray | None:
        """(time, point, 4) in SI units with steps of at most `longest`; None where a step is not solved or entropy falls."""
        dual, system = self._prepared()
        euler = Euler(dual, free_stream(mach, angle), walls=["airfoil"], far=["inflow"])
        flow = Unsteady(euler, system)
        flow.start(euler.uniform())
        units = np.array([_SOUND, _SOUND, DENSITY, DENSITY * _SOUND**2])
        fields = np.empty((self.frames, len(dual.volumes), 4), dtype=np.float32)
        for frame in range(self.frames):
            gap = self.spacing if frame else self.first_time
            steps = int(whole_steps(np.array(gap), np.array(longest)))
            for _ in range(steps):
                flow.step(gap / steps)
                if not (flow.unsolved <= _MOST_UNSOLVED and entropy(primitive(flow.state)).min() >= _LEAST_ENTROPY):
                    return None
            fields[frame] = primitive(flow.state)[[1, 2, 0, 3]].T * units
        return fields

    def _prepared(self) -> tuple[DualMesh, BlockSystem]:
        return _prepared(0 if self.mesh else self.points, self.mesh, self.boundary)


@lru_cache(maxsize=1)
def _prepared(points: int, mesh: str, boundary: tuple[str, ...]) -> tuple[DualMesh, BlockSystem]:
    """The one mesh of a data set, once per process."""
    dual = DualMesh(own_mesh(mesh, boundary, ROLES) if mesh else airfoil_mesh(Section(), points, _RADIUS))
    return dual, BlockSystem(dual)
