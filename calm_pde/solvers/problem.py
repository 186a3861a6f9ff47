"""A PDE with its settings as something that can be generated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from calm_pde.config import Config
from calm_pde.records.description import Description
from calm_pde.records.trajectory import Trajectory


class Problem(Config, ABC):
    """Draws random initial states (or geometries) and solves them; fields of a subclass are the options of `calm generate`."""

    together: ClassVar[int] = 1
    """How many trajectories are best solved in one call; a result never depends on which others are solved with it."""

    @abstractmethod
    def description(self) -> Description:
        """Everything of the data set but its trajectories."""

    @abstractmethod
    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        """One trajectory per random generator, in order; each depends on its own generator and the settings alone."""
