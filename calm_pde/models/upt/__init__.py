"""The universal physics transformer."""

from calm_pde.models.upt.config import UptConfig

__all__ = ["UptConfig"]
