"""How far a velocity field of quadratic elements is from free of divergence."""

from __future__ import annotations

import numpy as np

from calm_pde.solvers.methods.taylor_hood import _SLOPES, _WEIGHTS, TaylorHood


def relative_divergence(space: TaylorHood, velocity: np.ndarray) -> float:
    """‖∇·u‖/‖∇u‖ in L2, of the field inside the elements."""
    slopes = np.einsum("gil,cla->cgia", _SLOPES, space.slopes)
    jacobian = np.einsum("cgia,cib->cgab", slopes, velocity[space.cells])
    weights = space.areas[:, None] * _WEIGHTS
    squared = (weights * np.trace(jacobian, axis1=2, axis2=3) ** 2).sum()
    return float(np.sqrt(squared / (weights * np.square(jacobian).sum(axis=(2, 3))).sum()))
