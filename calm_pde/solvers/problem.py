"""A PDE with its settings as something that can be generated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from calm_pde.config import Config
from calm_pde.trajectories import Description, Trajectory


class Problem(Config):
    """Draws random initial states (or geometries) and solves them; fields of a subclass are the options of `calm generate`."""

    together: ClassVar[int] = 1
    """How many trajectories are best solved in one call; a result never depends on which others are solved with it."""

    def description(self) -> Description:
        raise NotImplementedError

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        """One trajectory per random generator, in order; each depends on its own generator and the settings alone."""
        raise NotImplementedError
