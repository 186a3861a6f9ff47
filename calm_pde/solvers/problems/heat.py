"""Heat conduction in a plate with a hole, a source moving over it and one wall of changing temperature, a mesh per sample."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pydantic

from calm_pde.geometry import Box
from calm_pde.records.description import Description, Field, Prescribed
from calm_pde.records.symmetry import Symmetry, Turned
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.mesh.perforated import Perforated, Range, check_room
from calm_pde.solvers.mesh.triangles import node_types
from calm_pde.solvers.methods.conduction import Boundaries, Conduction
from calm_pde.solvers.methods.time_steps import whole_steps
from calm_pde.solvers.problem import Problem
from calm_pde.solvers.scales import LogRange, Scale

NODE_TYPES = {0: "normal", 1: "hole", 2: "side", 6: "wall"}
CODES = {"hole": 1, "side": 2, "wall": 6}
"""Of the boundaries; where two meet, the later one counts: the corners of the wall have its temperature."""

CAPACITY = 3.6e6
"""ρc of steel in J/(m³·K)."""

_LENGTH, _HEIGHT = 0.2, 0.1
_FAR, _AT_HOLE, _GROWTH = 0.005, 0.6, 0.5  # edge lengths far away; their share at the hole, and how it grows per radius
_JITTER = 0.4  # of the distance of knots: how far each may be from where it would be if all were as far apart
_WAVES = 3  # per axis, of a random start

SYMMETRIES = (
    Symmetry(
        name="reflection across the plate",
        axes=(1, -2),
        shift=(0.0, _HEIGHT),
        conditions={
            "source_y": Turned(of="source_y", sign=-1, plus=_HEIGHT),
            "wall_temperature": Turned(of="wall_temperature"),
        },
    ),
)

UNITS = {"conductivity": "W/(m·K)", "power": "W", "speed": "m/s", "source_y": "m", "wall_temperature": "K"}


@dataclass(frozen=True)
class Plate(Perforated):
    """[0, length] × [0, height] without a disk; the wall is at x = 0."""

    length: float = _LENGTH
    height: float = _HEIGHT

    names: ClassVar[tuple[str, str, str, str, str]] = ("side", "side", "side", "wall", "hole")
    longest: ClassVar[int] = 40
    across: ClassVar[int] = 150

    def size(self, points: np.ndarray) -> np.ndarray:
        """Edge lengths 0.005 min(0.6 + 0.5·d/radius, 1), up to one factor for all; d is the distance from the hole."""
        away = np.linalg.norm(points - np.array(self.center), axis=1) - self.radius
        return _FAR * np.minimum(_AT_HOLE + _GROWTH * np.maximum(away, 0.0) / self.radius, 1.0)


@dataclass(frozen=True)
class Spot:
    """q = P/(2πσ²d) exp(−|x − x(t)|²/2σ²), x(t) = (x₀ + vt, y): what falls into the hole or beyond the plate is lost."""

    power: float
    speed: float
    start: tuple[float, float]
    radius: float
    thickness: float

    def __call__(self, places: np.ndarray, time: float) -> np.ndarray:
        x, y = self.start
        squared = np.square(places[:, 0] - (x + self.speed * time)) + np.square(places[:, 1] - y)
        peak = self.power / (2 * np.pi * self.radius**2 * self.thickness)
        return peak * np.exp(squared / (-2 * self.radius**2))


class Heat(Problem):
    """ρc ∂T/∂t = kΔT + q in a steel plate of 0.2 × 0.1 m with a round hole: T at x = 0 is given, the other sides insulated.

    A heat source moves along the plate. Conductivity, power and speed differ from sample to sample, and so do the hole, the
    height of the source and how the temperature of the wall changes.
    """

    points: int = pydantic.Field(default=800, ge=100)
    """About how many points a mesh has."""
    frames: int = pydantic.Field(default=11, ge=2)
    """Stored times, the initial state among them."""
    duration: float = pydantic.Field(default=600.0, gt=0)
    """The last stored time in seconds."""
    conductivity: Scale = LogRange(15.0, 60.0)
    """k in W/(m·K), of stainless to carbon steel; a number is the same for all, and then no parameter."""
    power: Scale = LogRange(20.0, 100.0)
    """Of the source in W, likewise."""
    speed: Scale = LogRange(1e-4, 3e-4)
    """Of the source in m/s, likewise; it starts at a tenth of the plate's length."""
    source_y: Range = (0.02, 0.08)
    """Range of the source's height on the plate in m."""
    spot: float = pydantic.Field(default=0.008, gt=0)
    """σ of the source in m."""
    thickness: float = pydantic.Field(default=0.005, gt=0)
    """Of the plate in m."""
    wall: Range = (280.0, 360.0)
    """Range of the wall's temperature at a knot in K."""
    knots: int = pydantic.Field(default=6, ge=2)
    """Times at which the wall's temperature is drawn, different ones in every sample; it is linear between them."""
    initial: Literal["uniform", "random"] = "uniform"
    """The plate at the start: all of it as warm as the wall, or with random smooth waves, which vanish at the wall."""
    unevenness: float = pydantic.Field(default=20.0, ge=0)
    """The standard deviation in K of each of these waves' amplitudes, less for short ones."""
    center_x: Range = (0.06, 0.14)
    """Range of the hole's middle along the plate."""
    center_y: Range = (0.035, 0.065)
    """Range of the hole's middle across the plate."""
    radius: Range = (0.01, 0.025)
    """Range of the hole's radius."""
    hole_transfer: float = pydantic.Field(default=0.0, ge=0)
    """Heat in W/(m²·K) that the hole's edge gives to the air in it; without it the hole is insulated."""
    ambient: float = pydantic.Field(default=293.15, gt=0)
    """Temperature of that air in K."""
    time_step: float = pydantic.Field(default=5.0, gt=0)
    """The longest step in seconds."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Heat:
        for name in ("source_y", "wall", "center_x", "center_y", "radius"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise ValueError(f"{name}: expected 0 < lower ≤ upper, got {low:g}, {high:g}")
        for name, extent in (("center_x", _LENGTH), ("center_y", _HEIGHT)):
            check_room(name, getattr(self, name), extent, self.radius[1], clearance=0.1 * _HEIGHT)
        if self.source_y[1] > _HEIGHT:
            low, high = self.source_y
            raise ValueError(f"source_y: expected a range within 0, {_HEIGHT:g}, got {low:g}, {high:g}")
        return self

    def description(self) -> Description:
        parameters = ("source_y", *self.ranged)
        return Description(
            name="heat",
            fields=(Field(name="temperature", unit="K"),),
            box=Box((0.0, 0.0), (_LENGTH, _HEIGHT)),
            times=self._times(),
            node_types=NODE_TYPES,
            parameters=parameters,
            signals=("wall_temperature",),
            units={name: UNITS[name] for name in (*parameters, "wall_temperature")},
            symmetries=self.symmetric(SYMMETRIES),
            prescribed=(Prescribed(field="temperature", node_types=(CODES["wall"],)),),
            provenance={
                "solver": "linear triangles with lumped mass, TR-BDF2",
                "settings": self.model_dump(),
            },
        )

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        for draw in draws:
            begun = time.perf_counter()
            plate = Plate((draw.uniform(*self.center_x), draw.uniform(*self.center_y)), draw.uniform(*self.radius))
            height = draw.uniform(*self.source_y)
            times, wall = self._wall(draw)
            waves = _waves(draw, self.unevenness if self.initial == "random" else 0.0)
            mesh = plate.mesh(plate.scale(self.points), draw)
            power, speed = (self.number(name, draw) for name in ("power", "speed"))
            conduction = Conduction(
                mesh,
                self.number("conductivity", draw),
                CAPACITY,
                Spot(power, speed, (0.1 * _LENGTH, height), self.spot, self.thickness),
                Boundaries(
                    held=("wall",),
                    temperature=lambda places, now, times=times, wall=wall: np.full(len(places), np.interp(now, times, wall)),
                    transfer={"hole": self.hole_transfer},
                    ambient=self.ambient,
                ),
            )
            conduction.start(wall[0] + _wavy(waves, mesh.points))
            yield Trajectory(
                fields=self._frames(conduction),
                points=mesh.points,
                cells=mesh.cells.astype(np.int32),
                node_type=node_types(mesh, CODES),
                parameters=self.parameters(draw, height),
                signals=wall[:, None],
                signal_times=times,
                seconds=time.perf_counter() - begun,
            )

    def _wall(self, draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """(knot,) times from the first frame to the last, and temperatures."""
        places = np.arange(self.knots, dtype=np.float64)
        places[1:-1] += draw.uniform(-_JITTER, _JITTER, size=self.knots - 2)
        return self.duration * places / (self.knots - 1), draw.uniform(*self.wall, size=self.knots)

    def _frames(self, conduction: Conduction) -> np.ndarray:
        """(time, point, 1)."""
        found = [conduction.temperature]
        for gap in np.diff(self._times()):
            steps = int(whole_steps(np.array(gap), np.array(self.time_step)))
            for _ in range(steps):
                conduction.step(gap / steps)
            found.append(conduction.temperature)
        return np.stack(found)[..., None].astype(np.float32)

    def _times(self) -> np.ndarray:
        return np.linspace(0.0, self.duration, self.frames)


def _waves(draw: np.random.Generator, deviation: float) -> np.ndarray:
    """(m, n) amplitudes of `_wavy`, falling as 1/(1 + m + n)."""
    number = np.arange(_WAVES)
    return deviation * draw.standard_normal((_WAVES, _WAVES)) / (1 + number[:, None] + number)


def _wavy(amplitudes: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Σ a_mn sin((m + ½)πx/length) cos(nπy/height): zero at the wall, level at the other sides."""
    number = np.arange(_WAVES)
    along = np.sin((number + 0.5) * np.pi * points[:, :1] / _LENGTH)
    across = np.cos(number * np.pi * points[:, 1:] / _HEIGHT)
    return np.einsum("mn,pm,pn->p", amplitudes, along, across)
