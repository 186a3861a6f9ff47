"""CALM-PDE, the paper's model."""

from calm_pde.models.calm.config import CalmConfig
from calm_pde.models.calm.model import CalmPDE

__all__ = ["CalmConfig", "CalmPDE"]
