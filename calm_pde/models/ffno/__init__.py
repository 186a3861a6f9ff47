"""The factorized Fourier neural operator."""

from calm_pde.models.ffno.model import FfnoConfig

__all__ = ["FfnoConfig"]
