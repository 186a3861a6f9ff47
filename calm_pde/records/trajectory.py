"""What solvers and readers give and a data file holds: one description, and trajectories one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from calm_pde.notebook import brief
from calm_pde.records.description import Description

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)


@dataclass(frozen=True, repr=False)
class Trajectory:
    """One sample; mesh arrays are None where the description holds them for all.

    Args:
        fields: (time, point, channel), float32 or float64.
        features: (point, feature).
        parameters: (parameter,).
        signals: (knot, signal), linear in time between its knots.
        signal_times: (knot,) physical and strictly increasing, from the first frame to the last at least; the description's
            times where there are signals without it.
        seconds: what solving it took on one core, where known.
    """

    fields: np.ndarray
    split: Split = "train"
    points: np.ndarray | None = None
    cells: np.ndarray | None = None
    node_type: np.ndarray | None = None
    features: np.ndarray | None = None
    parameters: np.ndarray | None = None
    signals: np.ndarray | None = None
    signal_times: np.ndarray | None = None
    seconds: float = float("nan")

    def __repr__(self) -> str:
        return brief(self)


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
