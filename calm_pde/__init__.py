"""Fast neural surrogates of time-dependent PDEs on any mesh, after the paper CALM-PDE."""

from calm_pde import errors
from calm_pde.geometry import Box
from calm_pde.models import CalmConfig, CalmPDE
from calm_pde.nn.layer import CalmLayer

__version__ = "0.1.0"

__all__ = ["Box", "CalmConfig", "CalmLayer", "CalmPDE", "errors"]
