"""A trained model in physical units: the folder, solving, evaluation, prediction."""

from calm_pde.surrogate.surrogate import Surrogate

__all__ = ["Surrogate"]
