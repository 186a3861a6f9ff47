"""How wrong a prediction is in training: by values and, where asked for, by gradients; channel by channel."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from calm_pde.data.statistics import Statistics
from calm_pde.errors import ConfigError
from calm_pde.metrics.relative_h1 import relative_h1_loss
from calm_pde.metrics.relative_l2 import relative_l2_loss
from calm_pde.records.batch import Batch
from calm_pde.train.config import TrainConfig
from calm_pde.train.loss.mean_square import mean_square
from calm_pde.train.loss.pairs import pairs_of
from calm_pde.types import Bool, Float, Tensor


class Loss:
    """‖û − u‖/‖u‖ + λ |û − u|/|u| of normalized fields, |·| the H¹ seminorm; the mean over frames and channels, per window.

    Relative to physical fields it is ‖û − u‖/‖u + μ/σ‖, with mean μ and deviation σ of a field.

    Args:
        fields: names of the channels.
    """

    def __init__(self, config: TrainConfig, fields: Sequence[str], periodic: tuple[bool, ...], statistics: Statistics) -> None:
        self.gradients, self.spacetime, self.periodic = config.gradient_loss, config.reduction == "spacetime", periodic
        self.weights = channel_weights(config.channel_weights, fields)
        self.zero = torch.tensor(statistics.mean) / torch.tensor(statistics.std) if config.relative_to == "physical" else None

    def of(
        self,
        predicted: Float[Tensor, "batch time point channel"],
        wanted: Float[Tensor, "batch time point channel"],
        batch: Batch,
        known: Bool[Tensor, "batch time point channel"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """Of windows on the points of a batch, which neighbors are found on wherever a random offset puts them.

        Args:
            known: what is prescribed and not predicted. It has no error, and no part in the norm of the truth; in gradients,
                which take it and a neighbor together, it is as true as it is in the answer.
        """
        weights = None if self.weights is None else self.weights.to(predicted)
        if self.zero is not None:
            zero = self.zero.to(predicted)
            predicted, wanted = predicted + zero, wanted + zero
        found, sought = predicted, wanted
        if known is not None:
            found, sought = predicted.masked_fill(known, 0.0), wanted.masked_fill(known, 0.0)
        losses = relative_l2_loss(found, sought, batch.mask, self.spacetime, weights)
        if not self.gradients:
            return losses
        predicted = predicted if known is None else torch.where(known, wanted, predicted)
        meshes = pairs_of(batch.points, batch.mask, self.periodic)
        return losses + self.gradients * relative_h1_loss(predicted, wanted, meshes, batch.mask, self.spacetime, weights)

    def of_differences(
        self,
        predicted: Float[Tensor, "batch time point channel"],
        wanted: Float[Tensor, "batch time point channel"],
        deviation: Float[Tensor, "channel"],
        batch: Batch,
        known: Bool[Tensor, "batch time point channel"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """Instead, the mean of ((û − u)/σ)², with σ the deviation of the differences between one frame and the next."""
        weights = None if self.weights is None else self.weights.to(predicted)
        return mean_square((predicted - wanted) / deviation.to(predicted), batch.mask, known, weights)


def channel_weights(weights: Sequence[float], fields: Sequence[str]) -> Float[Tensor, "channel"] | None:
    """One weight per field, in the mean 1; None where all fields count alike."""
    if not weights:
        return None
    if len(weights) != len(fields):
        raise ConfigError(
            f"train.channel_weights: expected {len(fields)}, one for each field ({', '.join(fields)}), got {len(weights)}: "
            f"{tuple(weights)}. Give one per field, in this order."
        )
    found = torch.tensor(weights, dtype=torch.float64) / max(weights)
    return found * (len(found) / found.sum())
