"""A PDE with its settings as something that can be generated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from calm_pde.config import Config
from calm_pde.records.description import Description
from calm_pde.records.symmetry import Symmetry, Turned
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.scales import LogRange


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

    @property
    def ranged(self) -> tuple[str, ...]:
        """The settings that are ranges: they become parameters of the data."""
        return tuple(name for name in type(self).model_fields if isinstance(getattr(self, name), LogRange))

    def symmetric(self, symmetries: Sequence[Symmetry]) -> tuple[Symmetry, ...]:
        """The symmetries, knowing that none of them changes the number of a range."""
        same = {name: Turned(of=name) for name in self.ranged}
        return tuple(found.model_copy(update={"conditions": found.conditions | same}) for found in symmetries)

    def number(self, name: str, draw: np.random.Generator) -> float:
        """A setting's number for the trajectory that the generator is for, which stays as it is."""
        value = getattr(self, name)
        return value.number(draw, name) if isinstance(value, LogRange) else float(value)

    def parameters(self, draw: np.random.Generator, *own: float) -> np.ndarray | None:
        """(parameter,) those that the problem draws itself, then the numbers of its ranges; None where there are none."""
        found = [*own, *(self.number(name, draw) for name in self.ranged)]
        return np.array(found) if found else None
