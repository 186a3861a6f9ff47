"""The vorticity of forced two-dimensional incompressible flow on the torus, by Fourier modes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pydantic

from calm_pde.geometry import Box, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.symmetry import Symmetry
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.methods.random_fields import gaussian_modes
from calm_pde.solvers.methods.spectral import Torus, evolve
from calm_pde.solvers.problem import Problem
from calm_pde.solvers.scales import ScaleOrZero

SYMMETRIES = (
    Symmetry(name="translation along (1, -1)", shift=(1.0, -1.0), any_multiple=True),
    Symmetry(name="half turn", axes=(-1, -2), shift=(0.25, 0.0)),
    Symmetry(name="axes swapped", axes=(2, 1), shift=(0.5, 0.0), fields=(-1,)),
)
"""What the forcing, a function of x + y, leaves of the plane's: a swap turns the sign of vorticity, half a period turns that of
the forcing."""


def forcing_modes(torus: Torus) -> np.ndarray:
    """0.1 (sin 2π(x + y) + cos 2π(x + y)) = Re((0.1 − 0.1i) e^{2πi(x + y)})."""
    modes = np.zeros(torus.laplacian.shape, dtype=np.complex128)
    modes[1, 1] = 0.05 - 0.05j
    return modes


def initial_variance(squared_wave: np.ndarray) -> np.ndarray:
    """E|c_k|² = τ^{2α−2}(4π²|k|² + τ²)^{−α}, α = 2.5, τ = 7."""
    return 7.0**3 * (4 * np.pi**2 * squared_wave + 49.0) ** -2.5


class VorticityTransport:
    """−u·∇ω + f of modes of ω, where u = ψ_y, v = −ψ_x, −Δψ = ω.

    With two transforms each way: −u·∇ω = ∂_x∂_y(u² − v²) + (∂_y² − ∂_x²)(uv).
    """

    def __init__(self, torus: Torus, forcing: np.ndarray | None = None) -> None:
        self.torus = torus
        self.forcing = np.zeros(torus.laplacian.shape, dtype=np.complex128) if forcing is None else forcing
        inverse = 1.0 / np.where(torus.laplacian == 0, 1.0, -torus.laplacian)
        along_x, along_y = torus.derivative
        self.to_velocity = np.stack([along_y * inverse, -along_x * inverse])
        self.mixed, self.crossed = along_x * along_y, along_y**2 - along_x**2

    def __call__(self, vorticity: np.ndarray) -> tuple[np.ndarray, float]:
        u, v = self.torus.values(self.to_velocity * vorticity)
        fastest = np.sqrt(np.max(u * u + v * v))
        products = self.torus.modes(np.stack([(u + v) * (u - v), u * v]))
        change = self.mixed * products[0] + self.crossed * products[1] + self.forcing
        return change, float(2 * np.pi * self.torus.highest * np.sqrt(2.0) * fastest)


class NavierStokes(Problem):
    """ω_t + u·∇ω = ν Δω + 0.1 (sin 2π(x + y) + cos 2π(x + y)) on [0, 1)², periodic, from a Gaussian random field."""

    points: int = pydantic.Field(default=64, ge=4)
    """Stored points per axis, at i/n."""
    resolution: int = pydantic.Field(default=128, ge=8)
    """Solved points per axis, a multiple of the stored ones, at least twice as many."""
    viscosity: ScaleOrZero = 1e-4
    """ν; a range low:high gives every trajectory its own, as a parameter."""
    first_time: float = pydantic.Field(default=1.0, ge=0)
    """The first stored time; the random field stands at time 0, and there does not tell ν."""
    frames: int = pydantic.Field(default=20, ge=2)
    """Stored times."""
    spacing: float = pydantic.Field(default=1.0, gt=0)
    """Time between stored frames."""
    time_step: float = pydantic.Field(default=0.02, gt=0)
    """The longest step; fast flow shortens it."""

    @pydantic.model_validator(mode="after")
    def _grids_fit(self) -> NavierStokes:
        if self.resolution % self.points or self.resolution < 2 * self.points:
            raise ValueError(
                f"resolution: expected a multiple of points ({self.points}), at least twice as many, got {self.resolution}. "
                f"Set resolution={2 * self.points}"
            )
        return self

    def description(self) -> Description:
        axis = np.arange(self.points) / self.points
        return Description(
            name="navier_stokes",
            fields=(Field(name="vorticity"),),
            box=Box((0.0, 0.0), (1.0, 1.0), True),
            times=self._times(),
            points=tensor_grid(axis, axis),
            parameters=self.ranged,
            symmetries=self.symmetric(SYMMETRIES),
            grid_shape=(self.points, self.points),
            provenance={
                "solver": "pseudo-spectral: 2/3 dealiasing, integrating-factor Runge–Kutta 4",
                "settings": self.model_dump(),
            },
        )

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        torus = Torus(self.resolution, dim=2)
        transport = VorticityTransport(torus, forcing_modes(torus))
        stride = self.resolution // self.points
        for draw in draws:
            start = time.perf_counter()
            initial = gaussian_modes(draw, torus.highest, 2, initial_variance)
            fields = np.empty((self.frames, self.points**2, 1), dtype=np.float32)
            decay = self.number("viscosity", draw) * torus.laplacian
            solution = evolve(initial, decay, transport, 0.0, self._times(), self.time_step)
            for frame, modes in enumerate(solution):
                fields[frame, :, 0] = torus.values(modes)[::stride, ::stride].ravel()
            yield Trajectory(fields=fields, parameters=self.parameters(draw), seconds=time.perf_counter() - start)

    def _times(self) -> np.ndarray:
        return self.first_time + self.spacing * np.arange(self.frames)
