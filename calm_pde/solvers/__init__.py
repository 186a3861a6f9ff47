"""Numerical solvers that make training data: one engine per method, one file per PDE."""

from __future__ import annotations

from calm_pde.solvers.problem import Problem
from calm_pde.solvers.problems.airfoil import Airfoil
from calm_pde.solvers.problems.burgers import Burgers
from calm_pde.solvers.problems.compressible import Compressible
from calm_pde.solvers.problems.cylinder import Cylinder
from calm_pde.solvers.problems.elasticity import Elasticity
from calm_pde.solvers.problems.heat import Heat
from calm_pde.solvers.problems.navier_stokes import NavierStokes
from calm_pde.solvers.problems.steady_airfoil import SteadyAirfoil

PROBLEMS: dict[str, type[Problem]] = {
    "burgers": Burgers,
    "navier_stokes": NavierStokes,
    "compressible": Compressible,
    "cylinder": Cylinder,
    "airfoil": Airfoil,
    "heat": Heat,
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
    "Heat",
    "NavierStokes",
    "Problem",
    "SteadyAirfoil",
]
