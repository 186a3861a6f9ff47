"""AROMA."""

from calm_pde.models.aroma.model import AromaConfig

__all__ = ["AromaConfig"]
