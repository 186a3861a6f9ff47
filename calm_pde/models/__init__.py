"""Models: a folder each, behind one contract and one registry."""

from calm_pde.models.calm import CalmConfig, CalmPDE
from calm_pde.models.contract import Model, ModelConfig
from calm_pde.models.registry import MODELS

__all__ = ["MODELS", "CalmConfig", "CalmPDE", "Model", "ModelConfig"]
