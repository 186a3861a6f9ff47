"""What a model is given, and in training what is wanted of it: in unit coordinates and normalized values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict

import torch

from calm_pde.notebook import brief
from calm_pde.records.signals import Signals
from calm_pde.types import Float, Tensor


class Driving(TypedDict, total=False):
    """What changes the steps of a state, each as `Inputs` has it; what is missing is None."""

    parameters: Tensor | None
    signals: Tensor | None
    signal_times: Tensor | None


class Conditions(Driving, total=False):
    """What every model takes by name beside a state on its points, each as `Inputs` has it; what is missing is None."""

    features: Tensor | None
    prescribed: Tensor | None
    cells: Tensor | None


@dataclass(frozen=True, repr=False)
class OnPoints:
    """Values on points and all that is told beside them; None where there is nothing of a kind, or it is not told.

    Args:
        values: (batch, point, channel) of a state, (batch, time, point, channel) of windows; padded points hold anything.
        points: (point, dim), or (batch, point, dim) where each sample has its own mesh.
        cells: the points at the corners of each cell, (cell, corner) or (batch, cell, corner), for models that read a mesh's
            edges; a cell of one point alone has none.
        mask: (batch, point), True where a point is real; None where all points are.
        node_type: the data file's code of each point, (point,) or (batch, point).
        features: (batch, point, feature), of each point, the same at all times.
        parameters: (batch, parameter).
        signals: (batch, knot, signal), what changes in time and is known in advance, linear between its knots.
        signal_times: of the knots, (batch, knot) or (knot,), in frames from the state, or from the first of the windows; frames
            0, 1, 2, … where there are signals without it. In single precision at least, whatever the type of the rest.
        prescribed: (batch, time, point, channel), values that are known in advance, frames 1, 2, …; NaN where nothing is.
    """

    values: Tensor
    points: Tensor
    mask: Tensor | None = None
    node_type: Tensor | None = None
    features: Tensor | None = None
    parameters: Tensor | None = None
    signals: Tensor | None = None
    signal_times: Tensor | None = None
    prescribed: Tensor | None = None
    cells: Tensor | None = None

    def __repr__(self) -> str:
        return brief(self)

    @property
    def conditions(self) -> Conditions:
        """Those that there are."""
        found = {name: getattr(self, name) for name in Conditions.__annotations__}
        return Conditions(**{name: value for name, value in found.items() if value is not None})


@dataclass(frozen=True, repr=False)
class Inputs(OnPoints):
    """A state, as a model is given it; made at the doors, which check it."""

    @property
    def driving(self) -> Driving:
        """Those of the conditions that change the steps of the state."""
        return Driving(parameters=self.parameters, signals=self.signals, signal_times=self.signal_times)

    @property
    def told(self) -> dict[str, Tensor]:
        """What every model takes by name beside values and points, as far as there is something to tell."""
        beside = {"mask": self.mask, "node_type": self.node_type, **self.conditions}
        return {name: value for name, value in beside.items() if isinstance(value, Tensor)}

    @property
    def course(self) -> Signals | None:
        """The signals as functions of time; None where there are none."""
        if self.signals is None:
            return None
        return Signals(knots(self.signals, self.signal_times), self.signals)


@dataclass(frozen=True, repr=False)
class Frames(OnPoints):
    """Windows of normalized values, as a model is trained on them: what it is given, and what is wanted of it."""

    @property
    def start(self) -> Inputs:
        """Frame 0 as the state that is given."""
        return Inputs(self.values[:, 0].contiguous(), self.points, mask=self.mask, node_type=self.node_type, **self.conditions)

    def since(self, frame: int, time: float | None = None) -> Frames:
        """The windows from a later frame on, with times from there; by default the frames are evenly spaced."""
        if not frame:
            return self
        told = {}
        if self.signals is not None:
            told["signal_times"] = knots(self.signals, self.signal_times) - (frame if time is None else time)
        if self.prescribed is not None:
            told["prescribed"] = self.prescribed[:, frame:]
        return replace(self, values=self.values[:, frame:], **told)

    @property
    def each(self) -> Inputs:
        """Every frame as a state that is given, (batch × time) of them."""
        time = self.values.shape[1]

        def own(value: Tensor | None) -> Tensor | None:
            return None if value is None else value.repeat_interleave(time, dim=0)

        times = None
        if self.signals is not None:
            ahead = knots(self.signals, self.signal_times)
            later = torch.arange(time, dtype=ahead.dtype, device=ahead.device)
            times = (ahead[:, None] - later[:, None]).flatten(0, 1)
        shared = self.node_type is None or self.node_type.ndim == 1
        return Inputs(
            self.values.flatten(0, 1),
            self.points.repeat_interleave(time, dim=0) if self.points.ndim == 3 else self.points,
            cells=own(self.cells) if self.cells is not None and self.cells.ndim == 3 else self.cells,
            mask=own(self.mask),
            node_type=self.node_type if shared else own(self.node_type),
            features=own(self.features),
            parameters=own(self.parameters),
            signals=own(self.signals),
            signal_times=times,
        )


def knots(
    signals: Float[Tensor, "batch knot signal"], times: Float[Tensor, "*batch knot"] | None
) -> Float[Tensor, "batch knot"]:
    """The times of the knots of each sample, in frames."""
    if times is None:
        exact = torch.promote_types(signals.dtype, torch.float32)
        times = torch.arange(signals.shape[1], dtype=exact, device=signals.device)
    return times.expand(signals.shape[:2])
