"""Fast neural surrogates of time-dependent PDEs on any mesh, after the paper CALM-PDE."""

from calm_pde import errors
from calm_pde.batch import Batch
from calm_pde.data.arrays import from_arrays
from calm_pde.data.dataset import Dataset
from calm_pde.data.storage import DataFile
from calm_pde.geometry import Box
from calm_pde.models import CalmConfig, CalmPDE
from calm_pde.nn.layer import CalmLayer
from calm_pde.surrogate import Surrogate

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Box",
    "CalmConfig",
    "CalmLayer",
    "CalmPDE",
    "DataFile",
    "Dataset",
    "Surrogate",
    "errors",
    "from_arrays",
]
