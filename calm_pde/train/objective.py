"""What is minimized: the relative error of normalized fields over a window, or what a stage of a model asks for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from calm_pde.config import suggestion
from calm_pde.data.statistics import Statistics
from calm_pde.errors import ConfigError, OutsideBoxWarning
from calm_pde.models import Model, ModelConfig
from calm_pde.models.contract import Answer
from calm_pde.models.draws import Draws
from calm_pde.records.batch import Batch
from calm_pde.records.inputs import Conditions, Frames
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.config import TrainConfig
from calm_pde.train.loss import Loss
from calm_pde.train.schedule import Schedule
from calm_pde.types import Bool, Float, Tensor

_NOISE = 3  # what tells its draws from others of the same seed and epoch


class Objective:
    """The loss of each window of a batch; `Surrogate.task` and `train.feeding` say what is given and what is wanted.

    - `rollout`: frame 0 is given, all others are wanted, frame 0 too with `reconstruction` of a model that decodes it; by
      `train.feeding`, true frames are given as well; with all lead times, every frame is given once, and those after it wanted.
    - `steady`: the features are given, one field is wanted.
    - `autoencoder`: frame 0 is given and wanted.
    - a stage of a model may have losses of its own.

    A model may add to its loss what it learns beside the error of its answers (`Model.training_answer`).
    """

    def __init__(self, surrogate: Surrogate, config: TrainConfig, schedule: Schedule) -> None:
        self.surrogate, self.config, self.schedule = surrogate, config, schedule
        _check(config, surrogate.model.config, surrogate.card.kind)
        fields = [field.name for field in surrogate.card.fields]
        self.loss = Loss(config, fields, surrogate.card.periodic, surrogate.card.statistics)
        self.noise = noise_of(config.input_noise, surrogate.card.statistics)

    def losses(self, batch: Batch, epoch: int = 0, offset: np.ndarray | None = None) -> Float[Tensor, "batch"]:
        """Mean over frames and channels of the relative error of normalized fields, per window."""
        dtype = torch.float64 if self.config.precision == "float64" else torch.float32
        frames = self.surrogate.translator.frames(batch, dtype)
        if offset is not None:
            frames = replace(frames, points=frames.points + frames.points.new_tensor(offset))
        model, stage = self.surrogate.model, self.schedule.span(epoch).stage
        with self._autocast(frames.points.device), nullcontext() if offset is None else _shifted_on_purpose():
            if stage is not None and stage.frames is not None:
                return model.stage_losses(stage.name, frames, self._draws(batch, epoch)).to(dtype)
            answer = self._answer(batch, frames, epoch)
            wanted = self._after_each_frame(frames.values) if self.config.lead_times == "all" else frames.values
        predicted = answer.predicted.to(dtype)
        known = None if self.config.prescribed_loss else self._known(batch, predicted.shape[1])
        wanted = wanted[:, -predicted.shape[1] :]
        if self.config.error == "difference":
            return self.loss.of_differences(predicted, wanted, model.difference_deviation, batch, known) + answer.added
        return self.loss.of(predicted, wanted, batch, known) + answer.added

    def _known(self, batch: Batch, count: int) -> Bool[Tensor, "batch time point channel"] | None:
        """Which of so many answers are prescribed, and so given and not wanted: at all times the same ones."""
        known = self.surrogate.translator.known(batch)
        return None if known is None else known[:, :1].expand(-1, count, -1, -1)

    def _answer(self, batch: Batch, frames: Frames, epoch: int) -> Answer:
        """Of the last frames of each window, normalized: all of them that are in the loss."""
        surrogate, stepped = self.surrogate, self.config.feeding != "rollout"
        if surrogate.task == "steady":
            features = surrogate.translator.inputs(batch, frames.points.dtype).values
            frames = replace(frames, values=features[:, None])
        values, times = frames.values, batch.times
        if self.config.lead_times == "all":
            return self._from_each_frame(frames, self._noisy(values[:, : max(1, len(times) - 1)], batch, epoch), times)
        given = self._noisy(values[:, :-1] if stepped else values[:, :1], batch, epoch)
        fed = self.schedule.self_fed(epoch) if stepped else values.shape[1] - 1
        answer = self._rolled(frames, given[:, 0], times[: fed + 1])
        if not stepped:
            return answer
        return answer._replace(predicted=torch.cat([answer.predicted, *self._steps(given[:, fed:], frames.since(fed))], dim=1))

    def _rolled(self, frames: Frames, given: Tensor, times: Float[Tensor, "time"]) -> Answer:
        """One rollout from what is given at the first of the times, whose true frames come first in `frames`."""
        model, steps = self.surrogate.model, len(times) - 1
        seen = replace(frames, values=torch.cat([given[:, None], frames.values[:, 1 : steps + 1]], dim=1))
        answer = model.training_answer(seen, (times[1:] - times[0]).tolist())
        return answer._replace(predicted=answer.predicted[:, self._left_out :])

    def _from_each_frame(self, frames: Frames, given: Float[Tensor, "batch start point channel"], times: Tensor) -> Answer:
        """The rollouts from every frame that has later ones, one after the other; what the model adds is their mean."""
        later = [frames.since(s, float(times[s] - times[0])) for s in range(given.shape[1])]
        rolled = [
            self._rolled(some, start, times[s:]) for s, (some, start) in enumerate(zip(later, given.unbind(1), strict=True))
        ]
        added = torch.stack([torch.as_tensor(one.added, device=given.device) for one in rolled]).mean(dim=0)
        return Answer(torch.cat([one.predicted for one in rolled], dim=1), added)

    def _after_each_frame(self, values: Tensor) -> Float[Tensor, "batch time point channel"]:
        """What is wanted of the rollouts from every frame."""
        starts = range(max(1, values.shape[1] - 1))
        return torch.cat([values[:, start + self._left_out :] for start in starts], dim=1)

    @property
    def _left_out(self) -> int:
        """How many frames of a rollout are not in the loss: the given one, where it is not to be reconstructed."""
        model = self.surrogate.model.config
        return int(model.task == "rollout" and not (self.config.reconstruction and model.abilities.reconstructs))

    def _steps(self, states: Float[Tensor, "batch time point channel"], frames: Frames) -> Iterator[Tensor]:
        """One step from each of the states, which are at the times of the frames, as many at once as the settings allow."""
        model, together, done = self.surrogate.model, self.config.frames_at_once, 0
        step = partial(_recomputed, model) if together else model.following
        count = states.shape[1]
        for part in states.split(together or count, dim=1) if count else ():
            now = frames.since(done)
            yield step(part, now.points, now.mask, now.node_type, **now.conditions)
            done += part.shape[1]

    def _noisy(self, values: Float[Tensor, "batch time point channel"], batch: Batch, epoch: int) -> Tensor:
        if self.noise is None:
            return values
        _, time, point, channel = values.shape
        noise = self._draws(batch, epoch).normal(point, time, channel).transpose(1, 2).to(values) * self.noise.to(values)
        known = self._known(batch, time)
        return values + (noise if known is None else noise.masked_fill(known, 0.0))

    def _draws(self, batch: Batch, epoch: int) -> Draws:
        windows = zip(batch.samples.tolist(), batch.starts.tolist(), strict=True)
        return Draws([[self.config.seed, epoch, _NOISE, sample, start] for sample, start in windows])

    def _autocast(self, device: torch.device) -> Any:
        return torch.autocast(device.type, torch.bfloat16) if self.config.precision == "bfloat16" else nullcontext()


def noise_of(told: float | dict[str, float], statistics: Statistics) -> Float[Tensor, "channel"] | None:
    """σ of each field, normalized; None where there is no noise at all."""
    if not isinstance(told, dict):
        return torch.full((len(statistics.names),), told) if told else None
    for name in told:
        if name not in statistics.names:
            raise ConfigError(f"train.input_noise: there is no field {name!r}. {suggestion(name, list(statistics.names))}")
    sizes = [told.get(name, 0.0) for name in statistics.names]
    return torch.tensor(sizes) / torch.tensor(statistics.std) if any(sizes) else None


def _check(config: TrainConfig, model: ModelConfig, kind: str) -> None:
    """Settings that a model can't be trained with are refused by name."""
    stages = model.abilities.stages
    if config.error == "difference":
        if not model.abilities.gathers:
            raise ConfigError(
                f"train.error: 'difference' is for models that keep the deviation of differences (mesh_graph_nets), and {kind} "
                "does not. Use 'relative'."
            )
        for name in ("gradient_loss", "relative_to"):
            if getattr(config, name) != TrainConfig.model_fields[name].default:
                raise ConfigError(f"train.{name}: with train.error 'difference' nothing is relative to a field. Leave it out.")
    if config.feeding != "rollout" and not model.abilities.frame_to_frame:
        raise ConfigError(
            f"train.feeding: {config.feeding!r} is for models that go from frame to frame on their points, and "
            f"{kind} does not. Use 'rollout'."
        )
    if config.accumulate > 1 and model.abilities.batch_statistics:
        raise ConfigError(
            f"train.accumulate: {kind} learns by a statistic of the whole batch, which parts of it have not; got "
            f"{config.accumulate}. Leave it out, or choose a smaller train.batch_size."
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


def _recomputed(model: Model, *arguments: Tensor | None, **conditions: Unpack[Conditions]) -> Tensor:
    """`following` that keeps nothing of its inside for the backward pass, but computes it again."""
    return checkpoint(model.following, *arguments, use_reentrant=False, **conditions)  # pyright: ignore[reportReturnType]
