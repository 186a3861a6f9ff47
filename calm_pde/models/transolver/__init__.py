"""Transolver."""

from calm_pde.models.transolver.model import TransolverConfig

__all__ = ["TransolverConfig"]
