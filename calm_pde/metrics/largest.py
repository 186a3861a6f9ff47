"""The largest error of all samples, frames and points."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch

from calm_pde.metrics.metric import Compared, Metric


class LargestError(Metric):
    """max |û − u|."""

    name: ClassVar[str] = "max_error"
    title: ClassVar[str] = "largest"
    unit: ClassVar[Literal["none", "field"]] = "field"

    def __init__(self, grid: tuple[int, ...] | None = None) -> None:
        super().__init__(grid)
        self._highest = torch.zeros(())

    def add(self, compared: Compared) -> None:
        self._highest = torch.maximum(self._highest, compared.wrong.abs().amax(dim=(0, 1, 2)))

    def of_field(self, place: int) -> float:
        return float(self._highest[place])
