"""The one way from physical values to what a model sees, and of its answers back."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from calm_pde.data.statistics import Statistics
from calm_pde.models import ModelConfig
from calm_pde.records.batch import Batch
from calm_pde.records.inputs import Conditions, Frames, Inputs
from calm_pde.types import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Translator:
    """Between data and a model: training, validation, evaluation, prediction, solving and report all go through here.

    Args:
        model: tells what is given to it.
        statistics: of the fields, in training.
        spacing: the physical time of one frame.
        feature_statistics: of the features of a steady problem; None where it is given the coordinates.
    """

    model: ModelConfig
    statistics: Statistics
    spacing: float
    feature_statistics: Statistics | None = None

    @property
    def task(self) -> str:
        return self.model.task

    @property
    def takes_node_types(self) -> bool:
        """Whether the model was made for them; a data file may have them nevertheless."""
        return bool(self.model.node_types)

    @property
    def given_statistics(self) -> Statistics | None:
        """Of what the model is given: fields, or features; None where that is the coordinates."""
        return self.feature_statistics if self.task == "steady" else self.statistics

    def given(self, values: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        """A physical state or features as the model is given them; unit coordinates stay what they are."""
        return values if self.given_statistics is None else self.given_statistics.normalized(values)

    def inputs(self, batch: Batch, dtype: torch.dtype) -> Inputs:
        """What the model is given of a batch: frame 0, or the features of a steady problem, or the coordinates."""
        points = batch.points.to(dtype)
        if self.task != "steady":
            values = self.given(batch.fields[:, 0].to(dtype))
        elif batch.features is None or self.feature_statistics is None:
            values = points.expand(len(batch), *points.shape[-2:])
        else:
            values = self.given(batch.features.to(dtype))
        return Inputs(values, points, mask=batch.mask, node_type=self.kinds(batch.node_type), **self.conditions(batch, dtype))

    def frames(self, batch: Batch, dtype: torch.dtype) -> Frames:
        """All frames of a batch, normalized: what the model's answers are compared with in training."""
        values = self.statistics.normalized(batch.fields.to(dtype))
        kinds = self.kinds(batch.node_type)
        return Frames(values, batch.points.to(dtype), batch.mask, kinds, **self.conditions(batch, dtype))

    def conditions(self, batch: Batch, dtype: torch.dtype) -> Conditions:
        """Those that the model takes."""
        found = Conditions()
        if self.model.parameters and batch.parameters is not None:
            found["parameters"] = batch.parameters.to(dtype)
        if self.model.features and batch.features is not None:
            found["features"] = batch.features.to(dtype)
        if self.model.signals and batch.signals is not None and batch.signal_times is not None:
            found["signals"] = batch.signals.to(dtype)
            found["signal_times"] = batch.signal_times.to(torch.promote_types(dtype, torch.float32))
        return found

    def known(self, batch: Batch) -> Bool[Tensor, "batch time point channel"] | None:
        """Where the fields of a batch are prescribed."""
        return None

    def kinds(self, node_type: Int[Tensor, "..."] | None) -> Int[Tensor, "..."] | None:
        """The node types of the data, where the model takes them."""
        return node_type if self.takes_node_types else None

    def physical(self, answer: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        """The model's answer in physical units, in single precision at least."""
        return self.statistics.physical(answer.to(torch.promote_types(answer.dtype, torch.float32)))

    def physical_change(self, change: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        """A difference of two answers in physical units."""
        return change * change.new_tensor(self.statistics.std)
