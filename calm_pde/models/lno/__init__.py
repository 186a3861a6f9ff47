"""The latent neural operator."""

from calm_pde.models.lno.model import LnoConfig

__all__ = ["LnoConfig"]
