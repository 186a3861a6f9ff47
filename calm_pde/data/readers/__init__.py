"""Readers of your own files and of published ones, by the name of their kind."""

from __future__ import annotations

from calm_pde.data.readers.arrays import Arrays
from calm_pde.data.readers.base import Reader
from calm_pde.data.readers.fno import FNOVorticity
from calm_pde.data.readers.geo_fno import Elasticity, SteadyAirfoil
from calm_pde.data.readers.meshgraphnets import MeshGraphNets
from calm_pde.data.readers.pdebench import PDEBench
from calm_pde.data.readers.simulations.openfoam import OpenFOAM
from calm_pde.data.readers.simulations.vtk_files import VTKFiles
from calm_pde.data.readers.the_well import TheWell

READERS: dict[str, type[Reader]] = {
    "arrays": Arrays,
    "vtk": VTKFiles,
    "openfoam": OpenFOAM,
    "pdebench": PDEBench,
    "fno": FNOVorticity,
    "meshgraphnets": MeshGraphNets,
    "steady_airfoil": SteadyAirfoil,
    "elasticity": Elasticity,
    "the_well": TheWell,
}
