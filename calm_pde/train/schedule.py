"""What each epoch of a training shows: its stage, how long its windows are, how much of them a model feeds itself."""

from __future__ import annotations

from typing import Any

from calm_pde.errors import ConfigError
from calm_pde.models import ModelConfig
from calm_pde.train.config import TrainConfig
from calm_pde.train.curriculum import linear_length, self_fed, window_length
from calm_pde.train.rates import learning_rate
from calm_pde.train.stages import Span, spans


class Schedule:
    """A function of the settings and the number of frames alone.

    Args:
        even: whether the frames are evenly spaced; otherwise a step from one frame to the next is none of a fixed length.
    """

    def __init__(self, config: TrainConfig, model: ModelConfig, num_frames: int, even: bool) -> None:
        self.config, self.num_frames, self.even = config, num_frames, even
        self.task, stages = model.task, model.abilities.stages
        self.spans = spans(stages, config.epochs, config.stages)
        longest = max((stage.frames or 1 for stage in stages), default=1)
        if (stages or config.feeding != "rollout") and (not even or num_frames < longest):
            raise ConfigError(
                f"train: such a training needs evenly spaced frames, at least {longest} of them; the data have {num_frames}"
                f"{'' if even else ', unevenly spaced'}. Choose other data, or a model without stages and "
                "train.feeding='rollout'."
            )

    def span(self, epoch: int) -> Span:
        """The epochs with the same stage as this one; the last ones after the end."""
        return next((span for span in self.spans if epoch < span.end), self.spans[-1])

    def length(self, epoch: int) -> int:
        """Frames of a window, the first included."""
        config, frames, span = self.config, self.num_frames, self.span(epoch)
        if self.task != "rollout":
            return 1
        if span.frames is not None:
            return span.frames
        if not config.curriculum or config.feeding != "rollout":
            return min(frames, config.window or frames)
        if config.growth == "linear":
            return linear_length(epoch - span.begin, span.epochs, frames, config.first_length, config.growth_share)
        return window_length(epoch - span.begin, span.epochs, frames, config.first_length)

    def self_fed(self, epoch: int) -> int:
        """How many frames of a window come from the model's own answers, in all of its rollouts."""
        most, span = self.length(epoch) - 1, self.span(epoch)
        if self.config.lead_times == "all":
            return most * (most + 1) // 2
        if self.config.feeding == "prefix":
            return min(self_fed(epoch - span.begin, span.epochs, self.num_frames), most)
        return most if self.config.feeding == "rollout" else 0

    def selects(self, epoch: int) -> bool:
        """Whether the weights after an epoch may be what is kept: in the last stage alone, before which parts do not fit."""
        return self.span(epoch) == self.spans[-1]

    def starts(self, epoch: int) -> dict[str, Any]:
        """Where windows may start, as `epoch_windows` takes it; those that a stage has of its own always start anywhere."""
        if self.span(epoch).frames is not None:
            return {"random_starts": True, "room": 1}
        return {"random_starts": self.config.random_starts and self.task != "steady" and self.even}

    def learning_rate(self, epoch: int, step: int, epoch_steps: int) -> float:
        """Of a step of the training; every stage goes through the schedule of its own."""
        config, span = self.config, self.span(epoch)
        return learning_rate(
            step - span.begin * epoch_steps,
            span.epochs * epoch_steps,
            config.learning_rate,
            config.schedule,
            lowest=config.lowest_rate,
            warm_up=config.warm_up,
            fall=config.fall,
            rise=config.rise,
            rise_from=config.rise_from,
        )

    def told(self, epoch: int) -> dict[str, Any]:
        """What is said of an epoch beside its losses; stage and self-fed frames where they tell something."""
        found: dict[str, Any] = {"length": self.length(epoch)}
        stage = self.span(epoch).stage
        if stage is not None:
            found["stage"] = stage.name
        if self.config.feeding == "prefix":
            found["self_fed"] = self.self_fed(epoch)
        return found
