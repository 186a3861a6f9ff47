"""Steady transonic flow around airfoils of random shape, solved on triangles and stored on the published C-grid."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pydantic

from calm_pde.errors import InputError
from calm_pde.geometry import Box, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.mesh.c_grid import LOWER, OUTWARD, SIDE, UPPER, WAKE, c_grid
from calm_pde.solvers.mesh.graded import airfoil_mesh, require_netgen
from calm_pde.solvers.mesh.interpolation import Interpolation
from calm_pde.solvers.mesh.section import Section
from calm_pde.solvers.methods.dual_mesh import DualMesh
from calm_pde.solvers.methods.euler import Euler
from calm_pde.solvers.methods.gas import GAMMA, free_stream, mach_number, primitive
from calm_pde.solvers.methods.implicit import BlockSystem
from calm_pde.solvers.methods.steady_flow import Steady
from calm_pde.solvers.problem import Problem

FIELDS = ("density", "velocity_x", "velocity_y", "pressure", "mach")
NODES = 8

_RADIUS = 60.0  # of the far field: it holds the C-grid's corners
_MOST_DRAWS = 20


class SteadyAirfoil(Problem):
    """∇·F(U) = 0 at Mach 0.8 around NACA 0012 bent by the displacements of eight nodes; density and pressure 1 far away."""

    points: int = pydantic.Field(default=2300, ge=400)
    """About how many points the flow is solved on."""
    stride_around: int = pydantic.Field(default=1, ge=1)
    """Store every so many-th of the C-grid's 221 points around; a divisor of 10 keeps both edges of the airfoil."""
    stride_outward: int = pydantic.Field(default=1, ge=1)
    """The same of its 51 points outward, a divisor of 50."""
    coordinates: Literal["physical", "index"] = "physical"
    """Where stored points are: in space, or at (i/220, j/50) of the grid, where the airfoil is not a speck in the far field."""
    displacement: float = pydantic.Field(default=0.05, ge=0, le=0.05)
    """The largest displacement of a node that bends the airfoil, in chords; 0 for NACA 0012 alone."""
    mach: float = pydantic.Field(default=0.8, ge=0.1, le=0.9)
    """Of the free stream."""
    angle: float = pydantic.Field(default=0.0, ge=-10, le=10)
    """Of attack in degrees."""
    fall: float = pydantic.Field(default=1e-4, gt=0, lt=1)
    """Of the residual; a shape where it is not reached is drawn again."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> SteadyAirfoil:
        for name, cells in (("stride_around", 10), ("stride_outward", OUTWARD)):
            if cells % getattr(self, name):
                raise ValueError(f"{name}: expected a divisor of {cells}, got {getattr(self, name)}")
        require_netgen()
        return self

    @property
    def grid_shape(self) -> tuple[int, int]:
        return 2 * (WAKE + SIDE) // self.stride_around + 1, OUTWARD // self.stride_outward + 1

    def description(self) -> Description:
        physical = self.coordinates == "physical"
        axes = (
            np.linspace(0, 1, 2 * (WAKE + SIDE) + 1)[:: self.stride_around],
            np.linspace(0, 1, OUTWARD + 1)[:: self.stride_outward],
        )
        return Description(
            name="steady_airfoil",
            fields=tuple(Field(name=name) for name in FIELDS),
            box=Box(LOWER, UPPER) if physical else Box((0, 0), (1, 1)),
            times=np.zeros(1),
            points=None if physical else tensor_grid(*axes),
            features=(Field(name="x"), Field(name="y")),
            targets=("mach",),
            parameters=(*(f"theta_{node}" for node in range(NODES)), "rejected_draws"),
            grid_shape=self.grid_shape,
            provenance={
                "solver": "steady Euler equations: finite volumes around the points of triangles, Roe's flux, put on a C-grid",
                "settings": self.model_dump(),
            },
        )

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        for draw in draws:
            start = time.perf_counter()
            section, found, rejected = self._drawn(draw)
            grid = c_grid(section)[:: self.stride_around, :: self.stride_outward].reshape(-1, 2)
            flow = Interpolation(found.euler.dual.mesh, grid)(primitive(found.state))
            scale = np.array([1.0, np.sqrt(GAMMA), np.sqrt(GAMMA), GAMMA])[:, None]
            yield Trajectory(
                fields=np.concatenate([flow * scale, mach_number(flow)[None]]).T.astype(np.float32)[None],
                points=grid if self.coordinates == "physical" else None,
                features=grid,
                parameters=np.array([*section.displacements, rejected]),
                seconds=time.perf_counter() - start,
            )

    def _drawn(self, draw: np.random.Generator) -> tuple[Section, Found, int]:
        """The first shape whose flow converges; its first node, the lower one before the nose, stays where it is."""
        for rejected in range(_MOST_DRAWS):
            moved = draw.uniform(-self.displacement, self.displacement, size=NODES - 1)
            section = Section((0.0, *moved.tolist()))
            found = steady_flow(section, self.points, self.mach, self.angle, self.fall)
            if found.history[-1] <= self.fall:
                return section, found, rejected
        raise InputError(
            "fall",
            expected="a fall of the residual that is reached",
            got=f"{_MOST_DRAWS} shapes that miss {self.fall:g}",
            fix="Take more, a lower Mach number or less displacement.",
        )


@dataclass(frozen=True)
class Found:
    """A steady flow: its equations, its conserved state, and the fall of the residual on the way to it."""

    euler: Euler
    state: np.ndarray
    history: list[float]


def steady_flow(section: Section, points: int, mach: float, angle: float = 0.0, fall: float = 1e-4) -> Found:
    """The flow around a section on a mesh of its own."""
    dual = DualMesh(airfoil_mesh(section, points, _RADIUS))
    euler = Euler(dual, free_stream(mach, angle), walls=["airfoil"], far=["inflow"])
    return Found(euler, *Steady(fall)(euler, BlockSystem(dual)))
