"""The stress in a pulled unit cell with a void of random shape, by quadratic finite elements."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pydantic
from scipy.special import expit

from calm_pde.geometry import Box
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.mesh.o_grid import OGrid, o_grid
from calm_pde.solvers.methods.finite_elements import Mesh, quadrilateral, solve_symmetric
from calm_pde.solvers.problem import Problem

RADII = 42
"""Stored radii of a void, at φ = 2πj/41: the first and the last are the same."""

NODE_TYPES = {0: "inside", 1: "void", 2: "clamped", 3: "pulled", 4: "free side"}
_DEGREE = 2


@dataclass(frozen=True)
class PlaneStress:
    """A thin sheet: σ = E/(1 − ν²) ((1 − ν) ε + ν tr(ε) I), ε = ½(∇u + ∇uᵀ)."""

    young: float = 1.0
    poisson: float = 0.5

    @property
    def moduli(self) -> tuple[float, float]:
        """λ and μ of σ = λ tr(ε) I + 2μ ε."""
        return self.young * self.poisson / (1 - self.poisson**2), self.young / (2 * (1 + self.poisson))

    def stiffness(self, products: np.ndarray) -> np.ndarray:
        """(cell, node, 2, node, 2): ∫ σ(N_a e_i) : ε(N_b e_j) dx, of ∫ ∂_i N_a ∂_j N_b dx."""
        first, shear = self.moduli
        blocks = first * products + shear * products.transpose(0, 1, 4, 3, 2)
        both = shear * (products[:, :, 0, :, 0] + products[:, :, 1, :, 1])
        blocks[:, :, 0, :, 0] += both
        blocks[:, :, 1, :, 1] += both
        return blocks

    def stress(self, gradient: np.ndarray) -> np.ndarray:
        """(…, 2, 2) of ∇u, (…, 2, 2)."""
        first, shear = self.moduli
        trace = np.trace(gradient, axis1=-2, axis2=-1)[..., None, None]
        return first * trace * np.eye(2) + shear * (gradient + np.swapaxes(gradient, -1, -2))


def von_mises(stress: np.ndarray) -> np.ndarray:
    """√(σ_x² − σ_x σ_y + σ_y² + 3τ²) of plane stress (…, 2, 2)."""
    along, across, shear = stress[..., 0, 0], stress[..., 1, 1], stress[..., 0, 1]
    return np.sqrt(along**2 - along * across + across**2 + 3 * shear**2)


@dataclass(frozen=True)
class Void:
    """r(φ) = r₀ + (r₁ − r₀)/(1 + e^{g(φ)}), g(φ) = Σ_k s_k (a_k cos kφ + b_k sin kφ), k = 1, 2, …

    Args:
        coefficients: a₁, a₂, … and then b₁, b₂, …
        scales: s₁, s₂, …
        radii: r₀ and r₁.
    """

    coefficients: np.ndarray
    scales: np.ndarray
    radii: tuple[float, float]

    def __call__(self, angles: np.ndarray) -> np.ndarray:
        waves = np.arange(1, len(self.scales) + 1) * np.asarray(angles)[..., None]
        cosines, sines = np.split(self.coefficients, 2)
        field = np.cos(waves) @ (self.scales * cosines) + np.sin(waves) @ (self.scales * sines)
        low, high = self.radii
        return low + (high - low) * expit(-field)


def pulled_cell(grid: OGrid, material: PlaneStress, traction: float) -> tuple[np.ndarray, np.ndarray]:
    """Displacement (node, 2) and stress (node, 2, 2) of the square: bottom clamped, (0, traction) on the top, the rest free.

    The grid's intervals come in pairs: its cells are quadratic elements.
    """
    mesh = Mesh(quadrilateral(_DEGREE), grid.points, grid.cells(_DEGREE))
    load = mesh.edge_load(grid.side(1, _DEGREE), lambda places, normals: np.broadcast_to([0.0, traction], places.shape))
    fixed = np.zeros(grid.points.shape, dtype=bool)
    fixed[grid.side(3)] = True
    matrix = mesh.matrix(material.stiffness(mesh.gradient_products()))
    displacement = solve_symmetric(matrix, load, fixed, np.zeros(fixed.shape))
    return displacement, material.stress(mesh.nodal_gradients(displacement))


class Elasticity(Problem):
    """∇·σ = 0 in the unit square around a void of random shape, clamped below, pulled above, in plane stress.

    The published sheet (Geo-FNO) is incompressible rubber with E = 6(C₁ + C₂) = 1.2 MPa. Under 100 Pa its strains stay below
    about 1e-3, where it is linear with ν = ½; E does not change σ.
    """

    around: int = pydantic.Field(default=36, ge=8, multiple_of=4)
    """Stored points around the void, a multiple of 4."""
    outward: int = pydantic.Field(default=27, ge=3)
    """Stored points from the void to the side of the square."""
    elements_around: int = pydantic.Field(default=144, ge=1)
    """Quadratic elements around the void; solved with the smallest multiple of the stored intervals of at least so many."""
    elements_outward: int = pydantic.Field(default=26, ge=1)
    """The same outward."""
    smallest_radius: float = pydantic.Field(default=0.2, gt=0)
    """Lower bound of the void's radius."""
    largest_radius: float = pydantic.Field(default=0.4, lt=0.5)
    """Upper bound of it; the square ends at 0.5."""
    waves: int = pydantic.Field(default=5, ge=1)
    """Highest wave number of the void's shape."""
    amplitude: float = pydantic.Field(default=4.0, ge=0)
    """σ of the Gaussian N(0, σ²(−d²/dφ² + τ²)⁻¹) that shapes the void; 0 for circles."""
    inverse_length: float = pydantic.Field(default=3.0, ge=0)
    """τ of it."""
    traction: float = pydantic.Field(default=100.0, gt=0)
    """Pull on the top, in Pa."""
    poisson: float = pydantic.Field(default=0.5, ge=0, le=0.5)
    """ν; ½ for rubber."""

    @pydantic.model_validator(mode="after")
    def _radii_are_ordered(self) -> Elasticity:
        if self.smallest_radius >= self.largest_radius:
            raise ValueError(
                f"smallest_radius: expected less than largest_radius ({self.largest_radius}), got {self.smallest_radius}. "
                "Swap them"
            )
        return self

    def description(self) -> Description:
        return Description(
            name="elasticity",
            fields=(Field(name="stress", unit="Pa"),),
            box=Box((0.0, 0.0), (1.0, 1.0)),
            times=np.zeros(1),
            node_types=NODE_TYPES,
            features=(Field(name="x"), Field(name="y")),
            parameters=(*(f"radius_{i}" for i in range(RADII)), *(f"theta_{i}" for i in range(2 * self.waves))),
            provenance={
                "solver": "linear plane stress: quadratic finite elements on an O-grid, von Mises stress at the nodes",
                "settings": self.model_dump(),
            },
        )

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        for draw in draws:
            start = time.perf_counter()
            void = self.void(draw)
            grid, stored = self.grid(void)
            _, stress = pulled_cell(grid, PlaneStress(poisson=self.poisson), self.traction)
            coarse = OGrid(grid.points[stored], self.around, self.outward)
            radii = void(np.linspace(0.0, 2 * np.pi, RADII))
            yield Trajectory(
                fields=von_mises(stress[stored]).astype(np.float32)[None, :, None],
                points=coarse.points,
                cells=coarse.quadrilaterals(),
                node_type=node_types(coarse),
                features=coarse.points,
                parameters=np.concatenate([radii, void.coefficients]),
                seconds=time.perf_counter() - start,
            )

    def void(self, draw: np.random.Generator) -> Void:
        """s_k = σ/√(π(k² + τ²)), standard normal coefficients: the circle's eigenfunctions are cos kφ/√π and sin kφ/√π."""
        number = np.arange(1, self.waves + 1)
        scales = self.amplitude / np.sqrt(np.pi * (number**2 + self.inverse_length**2))
        return Void(draw.standard_normal(2 * self.waves), scales, (self.smallest_radius, self.largest_radius))

    def grid(self, void: Void) -> tuple[OGrid, np.ndarray]:
        """The nodes that are solved for, and which of them are stored."""
        around = _DEGREE * -(-self.elements_around // self.around)  # nodes per stored interval
        outward = _DEGREE * -(-self.elements_outward // (self.outward - 1))
        grid = o_grid(void, around * self.around, outward * (self.outward - 1) + 1)
        numbers = np.arange(len(grid.points)).reshape(grid.around, grid.outward)
        return grid, numbers[::around, ::outward].ravel()


def node_types(grid: OGrid) -> np.ndarray:
    """(node,) codes of `NODE_TYPES`; a corner at the bottom is clamped, one at the top is pulled."""
    codes = np.zeros(len(grid.points), dtype=np.int32)
    for code, nodes in ((1, grid.curve()), (4, grid.side(0)), (4, grid.side(2)), (3, grid.side(1)), (2, grid.side(3))):
        codes[nodes] = code
    return codes
