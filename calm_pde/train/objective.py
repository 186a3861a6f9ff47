"""What is minimized: the relative L2 error of normalized fields over a window. The seam where other ways of training fit in."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import torch

from calm_pde.batch import Batch
from calm_pde.metrics import relative_l2, relative_l2_spacetime
from calm_pde.surrogate import Surrogate
from calm_pde.train.config import TrainConfig
from calm_pde.types import Float, Tensor


class Objective:
    """The loss of each window of a batch; `Surrogate.task` says what of it is given and what is wanted.

    - `rollout`: frame 0 is given, all frames are wanted, frame 0 among them with `reconstruction`.
    - `steady`: the features are given, one field is wanted.
    - `autoencoder`: frame 0 is given and wanted.
    """

    def __init__(self, surrogate: Surrogate, config: TrainConfig) -> None:
        self.surrogate, self.config = surrogate, config

    def losses(self, batch: Batch, offset: np.ndarray | None = None) -> Float[Tensor, "batch"]:
        """Mean over frames and channels of the relative L2 error of normalized fields, per window."""
        dtype = torch.float64 if self.config.precision == "float64" else torch.float32
        points = batch.points.to(dtype)
        if offset is not None:
            points = points + points.new_tensor(offset)
        with self._autocast(points.device):
            predicted, first = self._predicted(batch, points, dtype)
        target = self.surrogate.card.statistics.normalized(batch.fields.to(dtype))[:, first:]
        predicted = predicted[:, -target.shape[1] :].to(dtype)
        if self.config.reduction == "spacetime":
            return relative_l2_spacetime(predicted, target, batch.mask).mean(dim=1)
        return relative_l2(predicted, target, batch.mask).mean(dim=(1, 2))

    def _predicted(self, batch: Batch, points: Tensor, dtype: torch.dtype) -> tuple[Tensor, int]:
        """Normalized frames, and the first frame of the target that they stand for."""
        surrogate = self.surrogate
        model, task = surrogate.model, surrogate.task
        given = surrogate.normalized_input(batch, dtype)
        kinds = batch.node_type if surrogate.takes_node_types else None
        if task == "steady":
            return model(given, points, mask=batch.mask, node_type=kinds), 0
        times = [] if task == "autoencoder" else batch.times[1:].tolist()
        predicted = model.rollout(given, points, times, batch.mask, kinds)
        if task == "autoencoder":
            return predicted, 0
        return predicted, 0 if self.config.reconstruction else 1

    def _autocast(self, device: torch.device) -> Any:
        return torch.autocast(device.type, torch.bfloat16) if self.config.precision == "bfloat16" else nullcontext()
