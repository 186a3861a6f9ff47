"""The Fourier neural operator."""

from calm_pde.models.fno.model import FnoConfig

__all__ = ["FnoConfig"]
