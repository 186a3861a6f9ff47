"""All metrics of a predictor, gathered while the batches of a split pass by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from calm_pde.metrics import METRICS
from calm_pde.metrics.metric import Compared
from calm_pde.metrics.relative_l2 import RelativeL2
from calm_pde.metrics.scores import FieldErrors
from calm_pde.records.description import Field
from calm_pde.types import Tensor


class Gathering:
    """All metrics of one predictor while the batches pass by.

    Args:
        grid: the grid whose Fourier modes are sorted into bands.
        padding: the mean per channel and the number of points to pad each mesh to, for the published way of counting.
    """

    def __init__(self, grid: tuple[int, ...] | None = None, padding: tuple[Tensor, int] | None = None) -> None:
        self._paper = RelativeL2(grid)
        others = {name: metric(grid) for name, metric in METRICS.items() if metric is not RelativeL2}
        self._metrics = {RelativeL2.name: self._paper} | others
        self._padding = padding
        self._zeros: list[Tensor] = []
        self._predicted: list[Tensor] = []

    def add(self, prediction: Tensor, target: Tensor, mask: Tensor | None, given: Tensor | None = None) -> None:
        """One more batch; what was `given` (batch, time, point, channel) counts as no prediction."""
        compared = _compared(prediction, target, mask, given)
        published = compared
        if self._padding is not None:
            both = (_padded(values, mask, *self._padding) for values in (compared.prediction, compared.target))
            published = Compared(*both)
        self._predicted.append(_predicted(target, mask, given))
        self._zeros.append((published.target == 0).all(dim=2) & self._predicted[-1])
        for metric in self._metrics.values():
            metric.add(published if metric.published_padding else compared)

    def sample_errors(self) -> list[float]:
        """The paper's error of each sample."""
        return self._paper.of_samples().tolist()

    def scores(self, fields: Sequence[Field]) -> dict[str, Any]:
        """The content of `Scores`."""
        zeros, predicted = (torch.cat(found).sum(dim=(0, 1)).tolist() for found in (self._zeros, self._predicted))
        told = []
        for place, field in enumerate(fields):
            about = {"name": field.name, "unit": field.unit, "zero_frames": zeros[place], "given": not predicted[place]}
            told.append(FieldErrors.model_validate(about | self._of_field(place)))
        overall = {name: metric.of_all() for name, metric in self._metrics.items() if metric.overall}
        return overall | {"fields": tuple(told)}

    def _of_field(self, place: int) -> dict[str, Any]:
        told = {name: metric for name, metric in self._metrics.items() if metric.per_field}
        curves = {metric.frames_name(): metric.of_frames(place) for metric in told.values() if metric.per_frame}
        return {name: metric.of_field(place) for name, metric in told.items()} | curves


def _compared(prediction: Tensor, target: Tensor, mask: Tensor | None, given: Tensor | None) -> Compared:
    for hidden in (None if mask is None else ~mask[:, None, :, None], given):
        if hidden is not None:
            prediction, target = prediction.masked_fill(hidden, 0.0), target.masked_fill(hidden, 0.0)
    return Compared(prediction, target, mask, given)


def _predicted(target: Tensor, mask: Tensor | None, given: Tensor | None) -> Tensor:
    """(batch, time, channel): whether a frame of a field is predicted anywhere."""
    if given is None:
        return torch.ones_like(target[:, :, 0], dtype=torch.bool)
    return ~(given if mask is None else given | ~mask[:, None, :, None]).all(dim=2)


def _padded(values: Tensor, mask: Tensor | None, mean: Tensor, most: int) -> Tensor:
    """(batch, time, most, channel), the mean wherever there is no real point."""
    out = mean.expand(*values.shape[:2], most, values.shape[-1]).clone()
    out[:, :, : values.shape[2]] = values if mask is None else torch.where(mask[:, None, :, None], values, mean)
    return out
