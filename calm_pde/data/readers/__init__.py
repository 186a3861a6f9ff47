"""Readers of published data files, by the name of their kind."""

from __future__ import annotations

from calm_pde.data.readers.arrays import Arrays
from calm_pde.data.readers.base import Reader
from calm_pde.data.readers.fno import FNOVorticity
from calm_pde.data.readers.geo_fno import Elasticity, SteadyAirfoil
from calm_pde.data.readers.meshgraphnets import MeshGraphNets
from calm_pde.data.readers.pdebench import PDEBench
from calm_pde.data.readers.the_well import TheWell

READERS: dict[str, type[Reader]] = {
    "arrays": Arrays,
    "pdebench": PDEBench,
    "fno": FNOVorticity,
    "meshgraphnets": MeshGraphNets,
    "steady_airfoil": SteadyAirfoil,
    "elasticity": Elasticity,
    "the_well": TheWell,
}
