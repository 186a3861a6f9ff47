"""A U-Net on grids."""

from calm_pde.models.unet.model import UNetConfig

__all__ = ["UNetConfig"]
