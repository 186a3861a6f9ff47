"""ONO, the orthogonal neural operator."""

from calm_pde.models.ono.model import OnoConfig

__all__ = ["OnoConfig"]
