"""What is minimized: the relative error of normalized fields over a window, or what a stage of a model asks for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from calm_pde.errors import ConfigError, OutsideBoxWarning
from calm_pde.models import Model, ModelConfig
from calm_pde.models.draws import Draws
from calm_pde.records.batch import Batch
from calm_pde.records.inputs import Frames
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.config import TrainConfig
from calm_pde.train.loss import Loss
from calm_pde.train.schedule import Schedule
from calm_pde.types import Float, Tensor

_NOISE = 3  # what tells its draws from others of the same seed and epoch


class Objective:
    """The loss of each window of a batch; `Surrogate.task` and `train.feeding` say what is given and what is wanted.

    - `rollout`: frame 0 is given, all others are wanted, frame 0 too with `reconstruction` of a model that decodes it; by
      `train.feeding`, true frames are given as well; with all lead times, every frame is given once, and those after it wanted.
    - `steady`: the features are given, one field is wanted.
    - `autoencoder`: frame 0 is given and wanted.
    - a model in stages has losses of its own.
    """

    def __init__(self, surrogate: Surrogate, config: TrainConfig, schedule: Schedule) -> None:
        self.surrogate, self.config, self.schedule = surrogate, config, schedule
        _check(config, surrogate.model.config, surrogate.card.kind)
        fields = [field.name for field in surrogate.card.fields]
        self.loss = Loss(config, fields, surrogate.card.periodic, surrogate.card.statistics)

    def losses(self, batch: Batch, epoch: int = 0, offset: np.ndarray | None = None) -> Float[Tensor, "batch"]:
        """Mean over frames and channels of the relative error of normalized fields, per window."""
        dtype = torch.float64 if self.config.precision == "float64" else torch.float32
        frames = self.surrogate.translator.frames(batch, dtype)
        if offset is not None:
            frames = frames._replace(points=frames.points + frames.points.new_tensor(offset))
        model, stage = self.surrogate.model, self.schedule.span(epoch).stage
        with self._autocast(frames.points.device), nullcontext() if offset is None else _shifted_on_purpose():
            if stage is not None:
                return model.stage_losses(stage.name, frames, self._draws(batch, epoch)).to(dtype)
            if self.config.lead_times == "all":
                predicted, wanted = self._from_each_frame(batch, frames, epoch)
            else:
                predicted = self._predicted(batch, frames, epoch)
                wanted = frames.values[:, -predicted.shape[1] :]
        return self.loss.of(predicted.to(dtype), wanted, batch)

    def _predicted(self, batch: Batch, frames: Frames, epoch: int) -> Tensor:
        """The last frames of each window, normalized: all of them that are in the loss."""
        surrogate = self.surrogate
        model, task, (_, points, mask, kinds) = surrogate.model, surrogate.task, frames
        given = surrogate.translator.inputs(batch, points.dtype).values
        if task == "steady":
            return model(self._noisy(given[:, None], batch, epoch)[:, 0], points, mask=mask, node_type=kinds)
        if self.config.feeding != "rollout":
            return self._stepped(batch, frames, epoch)
        given = self._noisy(given[:, None], batch, epoch)[:, 0]
        if task == "autoencoder":
            return model.rollout(given, points, [], mask, kinds)
        return self._rolled(given, batch.times[1:], frames)

    def _from_each_frame(self, batch: Batch, frames: Frames, epoch: int) -> tuple[Tensor, Tensor]:
        """The rollouts from every frame that has later ones, one after the other, and what is wanted of them."""
        values, times = frames.values, batch.times
        given = self._noisy(values[:, : max(1, len(times) - 1)], batch, epoch)
        rolled = [self._rolled(start, times[s + 1 :] - times[s], frames) for s, start in enumerate(given.unbind(dim=1))]
        wanted = [values[:, -part.shape[1] :] for part in rolled]
        return torch.cat(rolled, dim=1), torch.cat(wanted, dim=1)

    def _rolled(self, given: Tensor, times: Tensor, frames: Frames) -> Tensor:
        """The frames of one rollout that are in the loss: at `times`, and before them the given one as it is reconstructed."""
        model, (_, points, mask, kinds) = self.surrogate.model, frames
        predicted = model.rollout(given, points, times.tolist(), mask, kinds)
        return predicted if self.config.reconstruction and model.config.abilities.reconstructs else predicted[:, 1:]

    def _stepped(self, batch: Batch, frames: Frames, epoch: int) -> Tensor:
        """Frames 1 … T − 1: first those that the model feeds itself, then one step from each true frame that is left."""
        model, (values, points, mask, kinds) = self.surrogate.model, frames
        inputs = self._noisy(values[:, :-1], batch, epoch)
        fed, together = self.schedule.self_fed(epoch), self.config.frames_at_once
        found = [model.rollout(inputs[:, 0], points, batch.times[1 : fed + 1].tolist(), mask, kinds)[:, 1:]] if fed else []
        left = inputs[:, fed:]
        for part in left.split(together or len(left[0]), dim=1) if len(left[0]) else ():
            steps = partial(_recomputed, model) if together else model.following
            found.append(steps(part, points, mask, kinds))
        return torch.cat(found, dim=1)

    def _noisy(self, values: Float[Tensor, "batch time point channel"], batch: Batch, epoch: int) -> Tensor:
        if not self.config.input_noise:
            return values
        _, time, point, channel = values.shape
        noise = self._draws(batch, epoch).normal(point, time, channel).transpose(1, 2)
        return values + self.config.input_noise * noise.to(values)

    def _draws(self, batch: Batch, epoch: int) -> Draws:
        windows = zip(batch.samples.tolist(), batch.starts.tolist(), strict=True)
        return Draws([[self.config.seed, epoch, _NOISE, sample, start] for sample, start in windows])

    def _autocast(self, device: torch.device) -> Any:
        return torch.autocast(device.type, torch.bfloat16) if self.config.precision == "bfloat16" else nullcontext()


def _check(config: TrainConfig, model: ModelConfig, kind: str) -> None:
    """Settings that a model can't be trained with are refused by name."""
    stages = model.abilities.stages
    if config.feeding != "rollout" and not model.abilities.frame_to_frame:
        raise ConfigError(
            f"train.feeding: {config.feeding!r} is for models that go from frame to frame on their points, and "
            f"{kind} does not. Use 'rollout'."
        )
    if config.lead_times == "all" and (stages or model.task != "rollout" or config.feeding != "rollout"):
        reason = f"{kind} learns in stages" if stages else f"this is a training of task {model.task!r}"
        reason = f"train.feeding is {config.feeding!r}" if config.feeding != "rollout" else reason
        raise ConfigError(
            f"train.lead_times: 'all' is for models that are rolled over a window on their own answers, and {reason}. "
            "Use 'window'."
        )
    for name in ("gradient_loss", "channel_weights", "relative_to") if stages else ():
        if getattr(config, name) != TrainConfig.model_fields[name].default:
            raise ConfigError(
                f"train.{name}: {kind} learns in stages ({', '.join(stage.name for stage in stages)}), with losses of their "
                "own. Leave it out."
            )


@contextmanager
def _shifted_on_purpose() -> Iterator[None]:
    """Points may leave the box without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideBoxWarning)
        yield


def _recomputed(model: Model, *arguments: Tensor | None) -> Tensor:
    """`following` that keeps nothing of its inside for the backward pass, but computes it again."""
    return checkpoint(model.following, *arguments, use_reentrant=False)  # pyright: ignore[reportReturnType]
