"""OFormer."""

from calm_pde.models.oformer.model import OFormerConfig

__all__ = ["OFormerConfig"]
