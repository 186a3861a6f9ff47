"""The geometry-aware operator transformer."""

from calm_pde.models.gaot.config import GaotConfig

__all__ = ["GaotConfig"]
