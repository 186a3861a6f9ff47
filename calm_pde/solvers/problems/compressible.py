"""Compressible flow of an ideal gas in a periodic cube, by finite volumes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import pydantic

from calm_pde.errors import warn
from calm_pde.geometry import Box, cell_centers, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.symmetry import isotropic
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.methods.finite_volume import ConservationLaw, evolve
from calm_pde.solvers.methods.random_fields import many_sines, window, window_edges
from calm_pde.solvers.problem import Problem
from calm_pde.solvers.scales import Scale

GAMMA = 5.0 / 3.0
DENSITY_FLOOR = 1e-4
PRESSURE_FLOOR = 1e-4
_DEEPEST = 0.9  # the largest share of the mean that a random perturbation may take away
_DENSITY, _PRESSURE, _VELOCITY = 0, 1, slice(2, None)


class Euler(ConservationLaw):
    """ρ_t + ∇·(ρv) = 0, (ρv)_t + ∇·(ρv⊗v + p) = 0, E_t + ∇·((E + p)v) = 0, E = p/(γ − 1) + ½ρ|v|², in any dimension.

    Channels of primitives: density, pressure, velocity per axis; of states: density, energy, momentum per axis.
    """

    def __init__(self, gamma: float = GAMMA) -> None:
        self.gamma = gamma

    def state(self, primitive: np.ndarray) -> np.ndarray:
        """Density, energy and momentum."""
        state = np.empty_like(primitive)
        density, velocity = primitive[:, _DENSITY], primitive[:, _VELOCITY]
        state[:, _DENSITY] = density
        state[:, _PRESSURE] = primitive[:, _PRESSURE] / (self.gamma - 1) + 0.5 * density * np.square(velocity).sum(axis=1)
        state[:, _VELOCITY] = density[:, None] * velocity
        return state

    def primitive(self, state: np.ndarray) -> np.ndarray:
        """Density, pressure and velocity."""
        primitive = np.empty_like(state)
        primitive[:, _DENSITY] = state[:, _DENSITY]
        primitive[:, _VELOCITY] = state[:, _VELOCITY] / state[:, None, _DENSITY]
        kinetic = 0.5 * (state[:, _VELOCITY] * primitive[:, _VELOCITY]).sum(axis=1)
        primitive[:, _PRESSURE] = (self.gamma - 1) * (state[:, _PRESSURE] - kinetic)
        return primitive

    def repair(self, state: np.ndarray) -> np.ndarray:
        """Raise density and pressure to their floors of 1e-4, keeping momentum: adds mass or energy, so it is counted."""
        thin = state[:, _DENSITY] < DENSITY_FLOOR
        if thin.any():
            state[:, _DENSITY][thin] = DENSITY_FLOOR
        kinetic = 0.5 * np.square(state[:, _VELOCITY]).sum(axis=1) / state[:, _DENSITY]
        least = kinetic + PRESSURE_FLOOR / (self.gamma - 1)
        cold = state[:, _PRESSURE] < least
        if cold.any():
            state[:, _PRESSURE][cold] = least[cold]
        return (thin | cold).reshape(len(state), -1).sum(axis=1)

    def crossing_rate(self, primitive: np.ndarray) -> np.ndarray:
        velocity = primitive[:, _VELOCITY]
        sound = np.sqrt(self.gamma * primitive[:, _PRESSURE] / primitive[:, _DENSITY])
        speeds = np.abs(velocity).sum(axis=1) + velocity.shape[1] * sound
        return speeds.reshape(len(speeds), -1).max(axis=1)

    def flux(self, left: np.ndarray, right: np.ndarray, axis: int) -> np.ndarray:
        """HLLC: three waves, the slowest and fastest bounded by v ∓ c of both sides, the contact between them exact.

        On the side K from which the contact comes, F = F_K + S (U*_K − U_K), S the speed of its outer wave or zero if that
        wave comes too.
        """
        normal = 2 + axis
        density_left, pressure_left, speed_left = left[:, _DENSITY], left[:, _PRESSURE], left[:, normal]
        density_right, pressure_right, speed_right = right[:, _DENSITY], right[:, _PRESSURE], right[:, normal]
        sound_left = np.sqrt(self.gamma * pressure_left / density_left)
        sound_right = np.sqrt(self.gamma * pressure_right / density_right)
        slowest = np.minimum(speed_left - sound_left, speed_right - sound_right)
        fastest = np.maximum(speed_left + sound_left, speed_right + sound_right)
        mass_left = density_left * (slowest - speed_left)
        mass_right = density_right * (fastest - speed_right)
        contact = (pressure_right - pressure_left + mass_left * speed_left - mass_right * speed_right) / (
            mass_left - mass_right
        )

        from_left = contact >= 0
        side = np.where(from_left[:, None], left, right)
        density, pressure, speed, velocity = side[:, _DENSITY], side[:, _PRESSURE], side[:, normal], side[:, _VELOCITY]
        outer = np.where(from_left, slowest, fastest)
        entered = np.where(from_left, np.minimum(slowest, 0.0), np.maximum(fastest, 0.0))
        squeezed = np.where(from_left, mass_left, mass_right) / (outer - contact)  # the density behind the outer wave
        energy = pressure / (self.gamma - 1) + 0.5 * density * np.square(velocity).sum(axis=1)
        pushed = contact + pressure / (density * (outer - speed))
        energy_behind = squeezed * (energy / density + (contact - speed) * pushed)

        flux = np.empty_like(side)
        flux[:, _DENSITY] = density * speed + entered * (squeezed - density)
        flux[:, _PRESSURE] = speed * (energy + pressure) + entered * (energy_behind - energy)
        np.multiply(flux[:, None, _DENSITY], velocity, out=flux[:, _VELOCITY])
        flux[:, normal] += pressure + entered * squeezed * (contact - speed)
        return flux


class Compressible(Problem):
    """The Euler equations of an ideal gas (γ = 5/3) in [0, 1)³, periodic, from random sums of sines at a mean Mach number.

    The data that this stands in for have viscosities of 1e-8, far below what any affordable grid resolves: none is added.
    """

    points: int = pydantic.Field(default=32, ge=4)
    """Cells per axis."""
    frames: int = pydantic.Field(default=21, ge=2)
    """Stored times, the initial state among them."""
    duration: float = pydantic.Field(default=1.0, gt=0)
    """The last stored time."""
    mach: Scale = 1.0
    """Mean initial speed over the speed of sound of the mean state; a range low:high gives every trajectory its own."""

    def description(self) -> Description:
        names = ("density", "pressure", "velocity_x", "velocity_y", "velocity_z")
        box = Box((0.0,) * 3, (1.0,) * 3, True)
        return Description(
            name="compressible",
            fields=tuple(Field(name=name) for name in names),
            box=box,
            times=self._times(),
            points=tensor_grid(*[cell_centers(self.points)] * 3),
            parameters=self.ranged,
            conserved=("density",),
            symmetries=self.symmetric(isotropic(box, len(names), velocity=(2, 3, 4))),
            grid_shape=(self.points,) * 3,
            provenance={"solver": "finite volumes: MUSCL (MC limiter), HLLC flux, Heun steps", "settings": self.model_dump()},
        )

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        law = Euler()
        for draw in draws:
            start = time.perf_counter()
            fields = np.empty((self.frames, self.points**3, 5), dtype=np.float32)

            def record(_: int, frame: int, state: np.ndarray, fields: np.ndarray = fields) -> None:
                fields[frame] = law.primitive(state[None])[0].reshape(5, -1).T

            initial = law.state(random_gas(draw, self.points, self.number("mach", draw))[None])
            effort = evolve(law, initial, 1.0 / self.points, self._times(), record)
            if effort.repaired[0]:
                warn(
                    f"compressible: {effort.repaired[0]} times a cell fell below the floor of density or pressure (1e-4) and "
                    f"was raised to it, in {effort.steps[0]} steps; mass or energy changed. More points per axis may help.",
                    RuntimeWarning,
                )
            yield Trajectory(fields=fields, parameters=self.parameters(draw), seconds=time.perf_counter() - start)

    def _times(self) -> np.ndarray:
        return np.linspace(0.0, self.duration, self.frames)


def random_gas(draw: np.random.Generator, points: int, mach: float) -> np.ndarray:
    """Primitives (channel, x, y, z) of a random state of the gas.

    Mean density and temperature ~ U(0.1, 10), relative perturbations ~ U(0.01, 0.2) of density and pressure per mean absolute
    value of their sums of sines (less where more than 0.9 of the mean would be taken away), mean speed = mach·√(γT); with
    probability ½ all of it only in a box, outside which the mean state rests.
    """
    mean_density, temperature = draw.uniform(0.1, 10.0, size=2)
    density_share, pressure_share = draw.uniform(0.01, 0.2, size=2)
    axes = [cell_centers(points)] * 3
    *velocities, pressure_wave, density_wave = (many_sines(draw, axes) for _ in range(5))
    boxed, edges = draw.uniform() < 0.5, [window_edges(draw) for _ in axes]

    velocity = np.stack(velocities)
    velocity *= mach * np.sqrt(GAMMA * temperature) / np.sqrt(np.square(velocity).sum(axis=0)).mean()
    relative = np.stack([_perturbation(density_wave, density_share), _perturbation(pressure_wave, pressure_share)])
    if boxed:
        inside = np.einsum("x,y,z->xyz", *(window(places, edge) for places, edge in zip(axes, edges, strict=True)))
        velocity, relative = inside * velocity, inside * relative
    means = np.array([mean_density, mean_density * temperature])
    return np.concatenate([means[:, None, None, None] * (1 + relative), velocity])


def _perturbation(wave: np.ndarray, share: float) -> np.ndarray:
    relative = share * wave / np.abs(wave).mean()
    return relative * min(1.0, _DEEPEST / -relative.min())
