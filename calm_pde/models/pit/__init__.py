"""The position-induced transformer."""

from calm_pde.models.pit.model import PitConfig

__all__ = ["PitConfig"]
