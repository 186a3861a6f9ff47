"""Models: a folder each, behind one contract and one registry."""

from calm_pde.models.calm import CalmConfig, CalmPDE
from calm_pde.models.contract import Model, ModelConfig
from calm_pde.models.registry import MODELS, OURS

__all__ = ["MODELS", "OURS", "CalmConfig", "CalmPDE", "Model", "ModelConfig"]
