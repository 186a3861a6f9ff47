"""Burgers' equation on the circle, by finite volumes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pydantic

from calm_pde.geometry import Box, cell_centers
from calm_pde.records.description import Description, Field
from calm_pde.records.symmetry import isotropic
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.methods.finite_volume import ConservationLaw, evolve
from calm_pde.solvers.methods.random_fields import few_sines
from calm_pde.solvers.problem import Problem
from calm_pde.solvers.scales import ScaleOrZero

FEWEST_CELLS = 1024


class BurgersLaw(ConservationLaw):
    """u_t + (u²/2)_x = D u_xx, with the exact solution of the Riemann problem at every face."""

    def __init__(self, diffusivity: float | np.ndarray) -> None:
        self.diffusivity = diffusivity

    def flux(self, left: np.ndarray, right: np.ndarray, axis: int) -> np.ndarray:
        """Godunov: ½ max(u_left, −u_right, 0)²."""
        speed = np.maximum(left, np.negative(right, out=right), out=left)
        np.maximum(speed, 0.0, out=speed)
        flux = np.multiply(speed, speed, out=speed)
        flux *= 0.5
        return flux

    def crossing_rate(self, primitive: np.ndarray) -> np.ndarray:
        flat = primitive.reshape(len(primitive), -1)
        return np.maximum(flat.max(axis=1), -flat.min(axis=1))


class Burgers(Problem):
    """u_t + u u_x = (ν/π) u_xx on [0, 1), periodic, from random sums of sines."""

    together: ClassVar[int] = 16

    points: int = pydantic.Field(default=1024, ge=4)
    """Stored cells; solved on the smallest multiple of at least 1024 cells, of which averages are stored."""
    frames: int = pydantic.Field(default=41, ge=2)
    """Stored times, the initial state among them."""
    viscosity: ScaleOrZero = 1e-3
    """ν; the equation diffuses with ν/π. A range low:high gives every trajectory its own, as a parameter."""
    duration: float = pydantic.Field(default=2.0, gt=0)
    """The last stored time."""
    exactly_periodic: bool = True
    """Initial sines of period 1; without it 1 − 1/1024, with PDEBench's small jump at the seam."""

    def description(self) -> Description:
        box = Box((0.0,), (1.0,), True)
        return Description(
            name="burgers",
            fields=(Field(name="u"),),
            box=box,
            times=self._times(),
            points=cell_centers(self.points)[:, None],
            parameters=self.ranged,
            conserved=("u",),
            symmetries=self.symmetric(isotropic(box, 1, velocity=(0,))),
            grid_shape=(self.points,),
            provenance={
                "solver": "finite volumes: MUSCL (MC limiter), Godunov flux, Heun steps",
                "settings": self.model_dump(),
            },
        )

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        start = time.perf_counter()
        merged = -(-FEWEST_CELLS // self.points)  # cells per stored cell
        cells = merged * self.points
        period = 1.0 if self.exactly_periodic else 1.0 - 1.0 / FEWEST_CELLS
        initial = np.stack([few_sines(draw, cell_centers(cells), period) for draw in draws])
        stored = np.empty((len(draws), self.frames, self.points, 1), dtype=np.float32)

        def record(trajectory: int, frame: int, state: np.ndarray) -> None:
            stored[trajectory, frame, :, 0] = state[0].reshape(-1, merged).mean(axis=1)

        law = BurgersLaw(np.array([self.number("viscosity", draw) for draw in draws]) / np.pi)
        effort = evolve(law, initial[:, None], 1.0 / cells, self._times(), record)
        seconds = (time.perf_counter() - start) * effort.steps / effort.steps.sum()
        for fields, draw, share in zip(stored, draws, seconds, strict=True):
            yield Trajectory(fields=fields, parameters=self.parameters(draw), seconds=float(share))

    def _times(self) -> np.ndarray:
        return np.linspace(0.0, self.duration, self.frames)
