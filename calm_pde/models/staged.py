"""Models that learn part by part: each stage of training has its own windows and its own loss, and freezes the rest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

from torch import nn

from calm_pde.models.contract import Model
from calm_pde.models.draws import Draws
from calm_pde.types import Float, Tensor


class Frames(NamedTuple):
    """Windows of normalized fields (batch, time, point, channel) on their points; padded points hold anything."""

    values: Tensor
    points: Tensor
    mask: Tensor | None = None
    node_type: Tensor | None = None


class Staged(Model):
    """A model whose config lists `stages`; the training loop goes through them in order."""

    @abstractmethod
    def part(self, stage: str) -> nn.Module:
        """What learns in a stage; everything else is frozen."""

    @abstractmethod
    def stage_losses(self, stage: str, frames: Frames, draws: Draws) -> Float[Tensor, "batch"]:
        """What a stage minimizes, per window; all that is random comes from `draws`."""

    def prepare(self, stage: str, training: Iterable[Frames]) -> None:
        """Called once before a stage but the first begins, with all training trajectories."""
