"""What a data set is, beside its trajectories: the one record of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calm_pde.config import Config
from calm_pde.geometry import Box


class Field(Config):
    """A named quantity at every point."""

    name: str
    unit: str = ""


@dataclass(frozen=True)
class Description:
    """Everything of a data set but its trajectories.

    Args:
        times: (time,) physical and strictly increasing; one entry for a steady problem.
        points: (point, dim) physical, where one mesh serves all; None where every trajectory brings its own.
        cells: (cell, corner) of the shared mesh, where known.
        node_type: (point,) codes of the shared mesh, where known.
        node_types: the name of each code.
        features: what a steady problem is given at each point.
        targets: the fields that a model learns by default; empty for all.
        parameters: names of the numbers that differ from trajectory to trajectory.
        conserved: fields whose integral over the domain stays constant.
        grid_shape: the axes of a structured mesh whose points come in row-major order.
        provenance: solver or source, settings, seed, versions.
    """

    name: str
    fields: tuple[Field, ...]
    box: Box
    times: np.ndarray
    points: np.ndarray | None = None
    cells: np.ndarray | None = None
    node_type: np.ndarray | None = None
    node_types: dict[int, str] = field(default_factory=dict)
    features: tuple[Field, ...] = ()
    targets: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    conserved: tuple[str, ...] = ()
    grid_shape: tuple[int, ...] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def steady(self) -> bool:
        return len(self.times) == 1
