"""Where the learned query points of every layer were at the start of a training and after its epochs."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from calm_pde.nn.query_points import own_queries
from calm_pde.types import Tensor

_MOST = 200  # snapshots
_EPOCHS = "epochs"


class QueryRecord:
    """Snapshots in float32, thinned to every 2ᵏ-th epoch once there would be more than 200; the newest is always there.

    Which epochs are kept is a function of the newest alone, so that a resumed run keeps the same.
    """

    def __init__(self, tensors: Mapping[str, Tensor] | None = None) -> None:
        """Empty, or from the `tensors` of another."""
        found = dict(tensors or {})
        self.epochs: list[int] = found.pop(_EPOCHS, torch.zeros(0)).long().tolist()
        self.positions = found

    def add(self, epoch: int, weights: Mapping[str, Tensor]) -> None:
        """Take the query points out of a model's weights, in place of what was recorded of this epoch and later ones."""
        stride = 1
        while epoch // stride + 2 > _MOST:
            stride *= 2
        kept = [place for place, known in enumerate(self.epochs) if known < epoch and known % stride == 0]
        for name, value in own_queries(weights).items():
            now = value.detach().cpu().float()[None]
            before = self.positions.get(name, now[:0])
            self.positions[name] = torch.cat([before[kept], now])
        self.epochs = [*(self.epochs[place] for place in kept), epoch]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All of it: `epochs` (snapshot), and each layer by its name in the model, (snapshot, query, dim), unit coordinates."""
        return {_EPOCHS: torch.tensor(self.epochs), **self.positions}
