"""What solvers and readers give and a data file holds: one description, and trajectories one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from calm_pde.config import Config
from calm_pde.geometry import Box

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


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


@dataclass(frozen=True)
class Trajectory:
    """One sample; mesh arrays are None where the description holds them for all.

    Args:
        fields: (time, point, channel), float32 or float64.
        features: (point, feature).
        parameters: (parameter,).
        seconds: what solving it took on one core, where known.
    """

    fields: np.ndarray
    split: Split = "train"
    points: np.ndarray | None = None
    cells: np.ndarray | None = None
    node_type: np.ndarray | None = None
    features: np.ndarray | None = None
    parameters: np.ndarray | None = None
    seconds: float = float("nan")


@dataclass(frozen=True)
class Source:
    """A data set on its way: described first, then read or computed trajectory by trajectory."""

    description: Description
    trajectories: Iterable[Trajectory]
    count: int


def generated_split(index: int, count: int) -> Split:
    """80/10/10 by sample index."""
    tenth = round(count / 10)
    if index >= count - tenth:
        return "test"
    return "validation" if index >= count - 2 * tenth else "train"


def published_split(train: int) -> list[Split]:
    """The last 10 % of the published training part become the validation part."""
    held = round(train / 10)
    return ["train" if index < train - held else "validation" for index in range(train)]


def cell_centers(count: int) -> np.ndarray:
    """(i + ½)/n."""
    return (np.arange(count) + 0.5) / count


def tensor_grid(*axes: np.ndarray) -> np.ndarray:
    """(point, dim) of the product of the axes, the last axis fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
