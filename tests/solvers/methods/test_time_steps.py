"""Equal steps that end on the stored times."""

from __future__ import annotations

import numpy as np

from calm_pde.solvers.methods.time_steps import whole_steps


def test_steps_are_as_few_as_allowed_and_rounding_adds_none():
    remaining, longest = np.array([1.0, 0.3, 0.1, 0.31, 1e-9]), np.array([0.3, 0.1, 0.3, 0.1, 1.0])
    assert whole_steps(remaining, longest).tolist() == [4, 3, 1, 4, 1]
