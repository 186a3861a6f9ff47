"""How much fields differ from one frame to the next, over what is not prescribed."""

from __future__ import annotations

import torch

from calm_pde.data.statistics import Moments
from calm_pde.records.inputs import Frames
from calm_pde.types import Float, Tensor


class Differences:
    """The deviation of u(t + 1) − u(t) of each field over all steps and free points that are added."""

    def __init__(self, channels: int) -> None:
        self._totals = [Moments(1) for _ in range(channels)]

    def add(self, frames: Frames) -> None:
        differences = frames.values.diff(dim=1)
        for channel, total in enumerate(self._totals):
            total.add(_free(differences[..., channel], frames, channel).cpu().numpy()[:, None])

    def deviation(self) -> Float[Tensor, "channel"]:
        """1 of a field that does not change."""
        return torch.tensor([total.statistics(("difference",)).std[0] for total in self._totals])


def _free(differences: Tensor, frames: Frames, channel: int) -> Tensor:
    """Those (batch, time, point) at points that are real and where the field is not prescribed."""
    free = torch.ones_like(differences, dtype=torch.bool)
    if frames.mask is not None:
        free &= frames.mask[:, None]
    if frames.prescribed is not None:
        free &= frames.prescribed[:, : free.shape[1], :, channel].isnan()
    return differences[free]
