"""Time steps that land exactly on the stored times."""

from __future__ import annotations

import numpy as np

_ROUNDING = 1e-9  # a remainder this far (relatively) above a whole number of steps is rounding, not one step more


def whole_steps(remaining: np.ndarray, longest: np.ndarray) -> np.ndarray:
    """The number of equal steps, none longer than allowed, that end exactly at the next stored time: ⌈remaining/longest⌉."""
    return np.asarray(np.maximum(np.ceil(remaining / longest * (1 - _ROUNDING)), 1.0))
