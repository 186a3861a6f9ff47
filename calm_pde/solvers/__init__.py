"""Numerical solvers that make training data: one engine per method, one file per PDE."""

from __future__ import annotations

from calm_pde.solvers.airfoil import Airfoil
from calm_pde.solvers.burgers import Burgers
from calm_pde.solvers.compressible import Compressible
from calm_pde.solvers.cylinder import Cylinder
from calm_pde.solvers.elasticity import Elasticity
from calm_pde.solvers.navier_stokes import NavierStokes
from calm_pde.solvers.problem import Problem
from calm_pde.solvers.steady_airfoil import SteadyAirfoil

PROBLEMS: dict[str, type[Problem]] = {
    "burgers": Burgers,
    "navier_stokes": NavierStokes,
    "compressible": Compressible,
    "cylinder": Cylinder,
    "airfoil": Airfoil,
    "elasticity": Elasticity,
    "steady_airfoil": SteadyAirfoil,
}
"""What can be generated, by name."""

__all__ = [
    "PROBLEMS",
    "Airfoil",
    "Burgers",
    "Compressible",
    "Cylinder",
    "Elasticity",
    "NavierStokes",
    "Problem",
    "SteadyAirfoil",
]
