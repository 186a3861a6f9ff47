"""What a model is given, and in training what is wanted of it: in unit coordinates and normalized values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from calm_pde.types import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class Inputs:
    """A state on points and all that a model is told beside it; None where there is nothing of a kind, or it is not told.

    Args:
        points: with a batch axis where each sample has its own mesh.
        cells: the corners of each cell, for models that need the edges of a mesh.
        mask: True where a point is real; None where all points are.
        node_type: the data file's code of each point, (point,) or (batch, point).
        features: of each point, the same at all times.
        signals: what changes in time and is known in advance, linear between its knots.
        signal_times: of the knots, in frames from the state; frames 0, 1, 2, … where there are signals without it.
        prescribed: values that are known in advance, frames 1, 2, …; NaN where nothing is.
    """

    values: Float[Tensor, "batch point channel"]
    points: Float[Tensor, "*cloud point dim"]
    cells: Int[Tensor, "*cloud cell corner"] | None = None
    mask: Bool[Tensor, "batch point"] | None = None
    node_type: Int[Tensor, "..."] | None = None
    features: Float[Tensor, "batch point feature"] | None = None
    parameters: Float[Tensor, "batch parameter"] | None = None
    signals: Float[Tensor, "batch knot signal"] | None = None
    signal_times: Float[Tensor, "batch knot"] | None = None
    prescribed: Float[Tensor, "batch time point channel"] | None = None

    @property
    def told(self) -> dict[str, Tensor | None]:
        """What every model takes by name beside values and points."""
        return {"mask": self.mask, "node_type": self.node_type}


class Frames(NamedTuple):
    """Windows of normalized values (batch, time, point, channel) on their points; padded points hold anything."""

    values: Tensor
    points: Tensor
    mask: Tensor | None = None
    node_type: Tensor | None = None
