"""The root of the mean square error over all samples, frames and points, in the field's unit and relative to its own size."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch

from calm_pde.metrics.metric import Compared, Metric
from calm_pde.metrics.values import root_ratio


class RootMeanSquare(Metric):
    """√(mean (û − u)²)."""

    name: ClassVar[str] = "rmse"
    title: ClassVar[str] = "RMSE"
    unit: ClassVar[Literal["none", "field"]] = "field"

    def __init__(self, grid: tuple[int, ...] | None = None) -> None:
        super().__init__(grid)
        self._squares = self._count = torch.zeros(())

    def add(self, compared: Compared) -> None:
        self._squares = self._squares + compared.wrong.square().sum(dim=(0, 1, 2))
        self._count = self._count + compared.num_values

    def of_field(self, place: int) -> float:
        return math.sqrt(float(self._squares[place]) / max(1.0, float(self._count[place])))


class NormalizedRootMeanSquare(Metric):
    """rms(û − u)/rms(u)."""

    name: ClassVar[str] = "normalized_rmse"
    title: ClassVar[str] = "normalized RMSE"
    drawn: ClassVar[Literal["everywhere", "report", "own table"]] = "report"

    def __init__(self, grid: tuple[int, ...] | None = None) -> None:
        super().__init__(grid)
        self._squares = self._sizes = torch.zeros(())

    def add(self, compared: Compared) -> None:
        self._squares = self._squares + compared.wrong.square().sum(dim=(0, 1, 2))
        self._sizes = self._sizes + compared.target.square().sum(dim=(0, 1, 2))

    def of_field(self, place: int) -> float:
        return root_ratio(float(self._squares[place]), float(self._sizes[place]))
