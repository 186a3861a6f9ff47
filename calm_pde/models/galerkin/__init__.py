"""The Galerkin Transformer."""

from calm_pde.models.galerkin.model import GalerkinConfig

__all__ = ["GalerkinConfig"]
