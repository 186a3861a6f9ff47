"""The one way from physical values to what a model sees, and of its answers back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from calm_pde.data.statistics import Statistics
from calm_pde.errors import InputError
from calm_pde.models import ModelConfig
from calm_pde.records.batch import Batch
from calm_pde.records.description import Prescribed
from calm_pde.records.inputs import Conditions, Frames, Inputs
from calm_pde.records.signals import Signals
from calm_pde.types import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Translator:
    """Between data and a model: training, validation, evaluation, prediction, solving and report all go through here.

    Args:
        model: tells what is given to it.
        statistics: of the fields, in training.
        spacing: the physical time of one frame.
        feature_statistics: of the features; None where there are none, and a steady problem is given the coordinates.
        parameter_statistics: of the parameters, where there are some.
        signal_statistics: of the signals, where there are some.
        prescribed: which fields are given and not predicted, and where.
    """

    model: ModelConfig
    statistics: Statistics
    spacing: float
    feature_statistics: Statistics | None = None
    parameter_statistics: Statistics | None = None
    signal_statistics: Statistics | None = None
    prescribed: tuple[Prescribed, ...] = ()

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
        """What the model is given of a batch: frame 0, or features of a steady problem, or the coordinates; and conditions."""
        points = batch.points.to(dtype)
        if self.task != "steady":
            values = self.given(batch.fields[:, 0].to(dtype))
        elif batch.features is None or self.feature_statistics is None:
            values = points.expand(len(batch), *points.shape[-2:])
        else:
            values = self.given(batch.features.to(dtype))
        return Inputs(values, points, mask=batch.mask, node_type=self.kinds(batch.node_type), **self.conditions(batch, dtype))

    def frames(self, batch: Batch, dtype: torch.dtype) -> Frames:
        """All frames of a batch, normalized: what the model's answers are compared with in training; and conditions."""
        values = self.statistics.normalized(batch.fields.to(dtype))
        kinds = self.kinds(batch.node_type)
        return Frames(values, batch.points.to(dtype), batch.mask, kinds, **self.conditions(batch, dtype))

    def kinds(self, node_type: Int[Tensor, "..."] | None) -> Int[Tensor, "..."] | None:
        """The node types of the data, where the model takes them."""
        return node_type if self.takes_node_types else None

    def conditions(self, batch: Batch, dtype: torch.dtype) -> Conditions:
        """Those that the model takes, normalized; those that a batch lacks are left for the model to ask for."""
        found = Conditions()
        if self.model.parameters and batch.parameters is not None:
            found["parameters"] = _normalized(self.parameter_statistics, batch.parameters.to(dtype))
        if self.model.features and batch.features is not None:
            found["features"] = _normalized(self.feature_statistics, batch.features.to(dtype))
        if self.model.signals and batch.signals is not None and batch.signal_times is not None:
            found["signals"] = _normalized(self.signal_statistics, batch.signals.to(dtype))
            found["signal_times"] = batch.signal_times.to(torch.promote_types(dtype, torch.float32))
        if self.model.cells and batch.cells is not None:
            found["cells"] = batch.cells
        known = self.known(batch) if self.task == "rollout" and len(batch.times) > 1 else None
        if known is not None:
            later = at_whole_frames(self.statistics.normalized(batch.fields.to(dtype)), batch.times)
            found["prescribed"] = later.masked_fill(~known[:, :1], torch.nan)
        return found

    def known(self, batch: Batch) -> Bool[Tensor, "batch time point channel"] | None:
        """Where the fields of a batch are prescribed, and so given and not predicted; None where they are nowhere."""
        if not self.prescribed or self.task == "autoencoder":
            return None
        found = torch.zeros(len(batch), *batch.fields.shape[-2:], dtype=torch.bool, device=batch.fields.device)
        for one in self.prescribed:
            place = self.statistics.names.index(one.field)
            found[..., place] |= _of_types(one, batch.node_type)
        return found[:, None].expand(batch.fields.shape)

    def with_given(
        self, answer: Float[Tensor, "batch time point channel"], batch: Batch
    ) -> Float[Tensor, "batch time point channel"]:
        """A physical answer at the last frames of a batch, on its points; exactly the given value where it is prescribed."""
        known, count = self.known(batch), answer.shape[1]
        return answer if known is None else torch.where(known[:, -count:], batch.fields[:, -count:].to(answer), answer)

    def physical(self, answer: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        """The model's answer in physical units, in single precision at least."""
        return self.statistics.physical(answer.to(torch.promote_types(answer.dtype, torch.float32)))

    def physical_change(self, change: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        """A difference of two answers in physical units."""
        return change * change.new_tensor(self.statistics.std)


def at_whole_frames(
    values: Float[Tensor, "batch time point channel"], times: Float[Tensor, "time"]
) -> Float[Tensor, "batch frame point channel"]:
    """Frames 1, 2, … up to the last of the times, which are in frames from 0; linear between them."""
    count = math.ceil(float(times[-1]) - 1e-3)
    if count == len(times) - 1 and bool((times == torch.arange(len(times)).to(times)).all()):
        return values[:, 1:]
    lines = Signals(times.to(torch.float64).expand(len(values), -1), values.flatten(2))
    asked = torch.arange(1, count + 1, dtype=torch.float64, device=times.device)
    return lines.at(asked).unflatten(2, values.shape[2:])


def _of_types(known: Prescribed, node_type: Int[Tensor, "..."] | None) -> Bool[Tensor, "..."] | bool:
    """At which points a field is prescribed."""
    if not known.node_types:
        return True
    if node_type is None:
        types = ", ".join(map(str, known.node_types))
        raise InputError(
            "node_type", expected=f"codes, since {known.field} is prescribed at types {types}", got="none", fix="Give them."
        )
    return torch.isin(node_type, torch.tensor(known.node_types, device=node_type.device))


def _normalized(known: Statistics | None, values: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
    return values if known is None else known.normalized(values)
