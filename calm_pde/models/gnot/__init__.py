"""GNOT, the general neural operator transformer."""

from calm_pde.models.gnot.model import GnotConfig

__all__ = ["GnotConfig"]
