"""What a metric is: one class with a name, a unit, what is better and where it is drawn; an object gathers it over a split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import torch

from calm_pde.metrics.values import Spread, Value, spread
from calm_pde.types import Bool, Float, Tensor


@dataclass(frozen=True)
class Compared:
    """A batch of answers beside the truth, physical; where `mask` is False there is no point, and both hold 0.

    Where `given` is True the value was prescribed and not predicted: there both hold 0 too, so that it is neither a part of the
    error nor of the size that an error is relative to, and it is not counted.
    """

    prediction: Float[Tensor, "batch time point channel"]
    target: Float[Tensor, "batch time point channel"]
    mask: Bool[Tensor, "batch point"] | None = None
    given: Bool[Tensor, "batch time point channel"] | None = None

    @cached_property
    def wrong(self) -> Float[Tensor, "batch time point channel"]:
        """û − u, infinite where the prediction is not finite."""
        return (self.prediction - self.target).nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf)

    @property
    def num_values(self) -> Float[Tensor, "channel"]:
        """Of each channel, at real points, without what was prescribed."""
        counted = torch.ones_like(self.target) if self.given is None else (~self.given).to(self.target)
        if self.mask is not None:
            counted = counted * self.mask[:, None, :, None]
        return counted.sum(dim=(0, 1, 2))


class Metric(ABC):
    """How far predicted fields are from the true ones. A class and its line in `METRICS` are all that a metric is.

    Args:
        grid: the shape of the points, where they are a full, uniform, periodic grid in row-major order.
    """

    name: ClassVar[str]
    """In JSON files, in suites, and as an attribute of what `evaluate` gives."""
    title: ClassVar[str]
    """Beside its axis and over its column."""
    short: ClassVar[str] = ""
    """Over its column, where the title is too long."""
    unit: ClassVar[Literal["none", "field"]] = "none"
    """Whether it is a pure number or has the unit of its field."""
    better: ClassVar[Literal["lower", "higher"]] = "lower"
    per_frame: ClassVar[bool] = False
    """Told in each frame too, as a curve of the report and its figures; in JSON under `frames_name`."""
    per_field: ClassVar[bool] = True
    """Told for each field."""
    overall: ClassVar[bool] = False
    """Told for all fields together too; suites may rank models by it."""
    drawn: ClassVar[Literal["everywhere", "report", "own table"]] = "everywhere"
    """A column of all tables, one of the report's alone, or, where a field has several numbers, a table of its own there."""
    published_padding: ClassVar[bool] = False
    """Whether `legacy_padding_metric` makes it count padded points, as the published numbers do."""

    def __init__(self, grid: tuple[int, ...] | None = None) -> None:
        self.grid = grid

    @classmethod
    def frames_name(cls) -> str:
        return f"{cls.name}_frames"

    @classmethod
    def heading(cls) -> str:
        return cls.short or cls.title

    @abstractmethod
    def add(self, compared: Compared) -> None:
        """Takes one more batch into account."""

    @abstractmethod
    def of_field(self, place: int) -> Value:
        """The number of one field over all that was added."""

    def of_frames(self, place: int) -> tuple[Spread, ...]:
        """Of one field, frame by frame, where the metric is `per_frame`."""
        raise TypeError(f"{type(self).__name__} declares per_frame and does not say what it is in a frame: write of_frames.")

    def of_all(self) -> Spread:
        """Of all fields together, where the metric is `overall`."""
        raise TypeError(f"{type(self).__name__} declares overall and does not say what it is of all fields: write of_all.")


class PerSample(Metric):
    """A number of each sample and field, or of each frame of them; told as mean and deviation over samples."""

    overall: ClassVar[bool] = True

    def __init__(self, grid: tuple[int, ...] | None = None) -> None:
        super().__init__(grid)
        self._batches: list[Tensor] = []

    @staticmethod
    @abstractmethod
    def errors(prediction: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        """(batch, time, channel) where the metric is `per_frame`, else (batch, channel); NaN is left out of means."""

    def add(self, compared: Compared) -> None:
        self._batches.append(self.errors(compared.prediction, compared.target, compared.mask))

    def of_field(self, place: int) -> Spread:
        return spread(self._over_frames(self._found()[..., place]))

    def of_frames(self, place: int) -> tuple[Spread, ...]:
        return tuple(spread(values) for values in self._found()[..., place].T)

    def of_all(self) -> Spread:
        return spread(self.of_samples())

    def of_samples(self) -> Float[Tensor, "sample"]:
        """The mean over frames and fields of each sample."""
        return self._found().flatten(1).nanmean(dim=1)

    def _found(self) -> Tensor:
        return torch.cat(self._batches)

    def _over_frames(self, values: Tensor) -> Tensor:
        return values.nanmean(dim=1) if self.per_frame else values
