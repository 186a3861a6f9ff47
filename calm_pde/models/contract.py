"""The contract that every model keeps, whatever is inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, Unpack, get_args

import numpy as np
import torch
from pydantic import Field, NonNegativeInt, PositiveInt, model_serializer, model_validator
from torch import nn

from calm_pde.config import Config, merged, suggestion
from calm_pde.errors import ConfigError, InputError
from calm_pde.geometry import Box
from calm_pde.models.checks import check_weights
from calm_pde.models.draws import Draws
from calm_pde.models.inside import LatentShape, LayerKernels, OwnQueries
from calm_pde.models.practice import Practice
from calm_pde.nn.matrices import Matrices, hidden_matrices
from calm_pde.records.inputs import Conditions, Frames, Inputs
from calm_pde.types import Float, Tensor

AnyModelConfig = TypeVar("AnyModelConfig", bound="ModelConfig")

Mesh = Tensor | np.ndarray | Sequence[Tensor | np.ndarray]


CONDITIONS = ("features", "parameters", "signals")
"""What a configuration counts of conditions, in the order in which their channels stand behind those of a state."""
STEP = ("parameters", "signals", "signals")
"""What a step is told: parameters, and signals of its two frames."""

_ASK_INSIDE = "Ask config.abilities.shows_inside first."
_ASK_GATHERED = "Ask config.abilities.gathers first."
_ASK_STAGES = "Ask config.abilities.stages first."


class Stage(NamedTuple):
    """A stage of training, in which one part of a model learns.

    Args:
        frames: of its windows, on which its own `stage_losses` are minimized; None where windows and loss are those of a
            training without stages.
    """

    name: str
    frames: int | None


class Reading(NamedTuple):
    """Where on an axis of a weight conditions are read: behind so many channels of something else, and others may follow.

    Args:
        kinds: of conditions, one behind the other; the model has as many of each as its configuration says.
        repeats: how often the whole axis stands one behind the other.
        axis: on which they are read; None for a bias.
        written: an axis on which channels are answered as they are read.
        silent: whether those that are new answer zero at first, since nothing behind them weighs them.
    """

    before: int
    kinds: tuple[str, ...]
    repeats: int = 1
    axis: int | None = 1
    written: int | None = None
    silent: bool = False


class Answer(NamedTuple):
    """What a model answers in training, and what it adds to the loss of each window."""

    predicted: Float[Tensor, "batch time point channel"]
    added: Float[Tensor, "batch"] | float = 0.0


class Abilities(NamedTuple):
    """What a model can do beyond the least; where it can't, it refuses in an `InputError`.

    Args:
        irregular_points: lives on any points, on other points for each sample, and under masks; else on full grids only.
        free_queries: answers anywhere, not at its points alone.
        any_times: answers between frames; its `forward` takes `times`.
        bakes: has a fast form for one mesh.
        reconstructs: its `rollout` begins with the state as the decoder gives it back; otherwise with the state itself, in no
            loss.
        shows_inside: shows its query points, kernels and latent tokens.
        bfloat16_weights: computes with weights in bfloat16; every model does under autocast, with weights in float32.
        frame_to_frame: answers the frame after any given one (`following`), so that training may feed it true frames.
        conditions: takes parameters, features of points and signals beside the state, as its config counts them.
        cells: reads the edges of a mesh from its cells, where its config says so.
        starts_by_data: its weights start by what it will be given (`start_by`).
        batch_statistics: while it learns, an answer depends on its batch mates, by a statistic of the whole batch; that of a
            model which is not in training never does.
        gathers: keeps statistics of its own of the training trajectories (`gather`), among them the deviation of differences
            between one frame and the next (`difference_deviation`).
        stages: the stages in which it is trained part by part, in this order; none where it is trained as a whole.
    """

    irregular_points: bool = True
    free_queries: bool = True
    any_times: bool = False
    bakes: bool = False
    reconstructs: bool = False
    shows_inside: bool = False
    bfloat16_weights: bool = False
    frame_to_frame: bool = False
    conditions: bool = False
    cells: bool = False
    starts_by_data: bool = False
    batch_statistics: bool = False
    gathers: bool = False
    stages: tuple[Stage, ...] = ()


class Model(nn.Module, ABC):
    """Maps a state on points to later states at queries; built from its config, in unit coordinates."""

    undecayed: ClassVar[tuple[str, ...]] = ()
    """Last names of parameters that weight decay leaves alone, as it does biases and norms."""

    config: ModelConfig

    @abstractmethod
    def forward(
        self,
        values: Tensor,
        points: Tensor,
        num_steps: int | None = None,
        queries: Tensor | None = None,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Tensor:
        """Frames 1 … num_steps at the queries (default: the points), (batch, time, query, channel).

        A model that can't do a thing (free queries, irregular points) says so in an `InputError`.

        Args:
            conditions: parameters (batch, parameter), features (batch, point, feature), signals (batch, knot, signal) with
                their signal_times in frames, as many as the config says; and prescribed values (batch, time, point, channel)
                of frames 1, 2, …, NaN where there are none, which a model that is fed its own frames finds in them. What it
                answers there is its own: whoever prescribes a value knows it. And cells of the mesh, where the config says so.
        """

    @abstractmethod
    def rollout(
        self,
        values: Tensor,
        points: Tensor,
        times: Sequence[float],
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Tensor:
        """The state itself as the model sees it, then the frames at `times` (in frames), at the points; what is trained on."""

    def following(
        self,
        states: Tensor,
        points: Tensor,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Float[Tensor, "batch time point channel"]:
        """The frame after each of the states (batch, time, point, channel) at frames 0, 1, …: one step each, all at once."""
        self.require_time("following")
        raise self.refusal("following", "go from frame to frame", "Ask config.abilities.frame_to_frame first.")

    def training_answer(self, frames: Frames, times: Sequence[float]) -> Answer:
        """The one way in which training asks: `rollout` from frame 0, or the answer of a steady model, and what is added.

        Args:
            frames: frame 0 is given to the model; the true frames at `times` behind it serve only what it adds to the loss.
        """
        given = frames.start
        if self.config.task == "steady":
            return Answer(self(given.values, given.points, **given.told))
        return Answer(self.rollout(given.values, given.points, times, given.mask, given.node_type, **given.conditions))

    def start_by(self, given: Inputs) -> None:
        """Called once before a training, with some of what it will be given."""
        raise self.refusal("start_by", "start by data", "Ask config.abilities.starts_by_data first.")

    def gather(self, training: Iterable[Frames]) -> None:
        """Called once before a training, with all of its trajectories; not where it goes on from other weights."""
        raise self.refusal("gather", "gather statistics", _ASK_GATHERED)

    @property
    def difference_deviation(self) -> Float[Tensor, "channel"]:
        """Of the differences between one frame and the next in training, normalized."""
        raise self.refusal("difference_deviation", "tell how much frames differ", _ASK_GATHERED)

    def part(self, stage: str) -> nn.Module:
        """What learns in a stage of training; everything else is frozen."""
        raise self.refusal("stage", "learn in stages", _ASK_STAGES)

    def stage_losses(self, stage: str, frames: Frames, draws: Draws) -> Float[Tensor, "batch"]:
        """What a stage with windows of its own minimizes, per window; all that is random comes from `draws`."""
        raise self.refusal("stage", "learn in stages", _ASK_STAGES)

    def prepare(self, stage: str, training: Iterable[Frames]) -> None:
        """Called once before a stage but the first begins, with all training trajectories."""

    def differentiate(self) -> None:
        """Called once on a copy whose answers are differentiated, to any order: what training leaves out of its gradients is
        in them from then on, and nothing is computed by what has no second derivative."""

    def reading(self) -> dict[str, Reading]:
        """The parameters that are larger for what the model is told, by name; see `widened_weights`."""
        return {}

    @property
    def outermost(self) -> tuple[str, ...]:
        """Names of the first and last maps, of whose parameters none counts as a hidden matrix."""
        return ()

    def matrices(self) -> dict[str, Matrices]:
        """The hidden matrices by parameter name: what an optimizer moves as matrices, and not number by number."""
        return hidden_matrices(self, self.outermost)

    def bake(
        self, points: Tensor, queries: Tensor | None = None, mask: Tensor | None = None, node_type: Tensor | None = None
    ) -> Callable[..., Tensor]:
        """This model on one mesh for good, for fast inference: a function of the values and the steps."""
        raise self.refusal("bake", "bake", "Use solve of the surrogate, or the model itself.")

    def predicted_peak(self, num_points: int, batch: int, num_steps: int | None, *, own_meshes: bool = False) -> int | None:
        """Bytes that a training step takes at the most, from shapes alone; None for a model that can't tell."""
        return None

    def query_points(self) -> list[OwnQueries]:
        """Of every layer that has queries of its own, from the input to the output."""
        raise self.refusal("query_points", "show its query points", _ASK_INSIDE)

    def kernel_weights(self, points: Tensor, box: Box) -> list[LayerKernels]:
        """Of every layer at a few queries spread over the mesh (point, dim)."""
        raise self.refusal("kernel_weights", "show its kernels", _ASK_INSIDE)

    def latent_shape(self) -> LatentShape:
        """Tokens and channels of one frame."""
        raise self.refusal("latent_shape", "show its tokens", _ASK_INSIDE)

    def tokens(self, start: Inputs) -> tuple[Tensor, Tensor]:
        """Latent tokens z (batch, token, channel) of a state, and their positions (token, dim), or (batch, token, dim)."""
        raise self.refusal("tokens", "show its tokens", _ASK_INSIDE)

    def fields_of_tokens(self, z: Tensor, positions: Tensor, times: Sequence[float], queries: Tensor, start: Inputs) -> Tensor:
        """What is decoded of the tokens at once and at `times` in frames; a steady model has its one answer alone.

        Args:
            start: the one state that was encoded, whatever becomes of its tokens, and its conditions.
        """
        raise self.refusal("fields_of_tokens", "show its tokens", _ASK_INSIDE)

    def checked_dtype(self) -> torch.dtype:
        """The type of the weights, which all that the model is given has to have; one that it can't compute in is refused."""
        dtype = next(self.parameters()).dtype
        check_weights(dtype, self._title, self.config.abilities.bfloat16_weights)
        return dtype

    def require_time(self, asked: str) -> None:
        """A model of steady problems refuses what has to do with time."""
        if self.config.task == "steady":
            raise self.refusal(asked, "go from frame to frame", "It was made for steady problems: call the model itself.")

    def refusal(self, argument: str, what: str, fix: str) -> InputError:
        return InputError(argument, expected=f"a model that can {what}", got=f"{self._title}, which can't", fix=fix)

    @property
    def _title(self) -> str:
        return self.config.title or type(self).__name__


class ModelConfig(Config, ABC):
    """The configuration of one kind of model; the registry names it.

    Args:
        task: what is given and what is wanted: of a `rollout` a state and later ones, of a `steady` problem features and one
            field, of an `autoencoder` a state and itself. A configuration that can be told another one than the rollout
            declares the field again; without that it stands in no file.
        node_types: the codes that `node_type` may hold; empty where the model is not told the kind of a point.
        parameters, signals, features: how many the model is told: numbers of a trajectory, known functions of time, and
            numbers of a point that do not change (beside what a steady problem is given). 0 stands in no file.
        cells: whether the model is told the cells of a mesh; training sets it by the data file, for a model that reads them.
    """

    title: ClassVar[str] = ""
    """Its name in tables; without one, that in the registry."""
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    """Sizes for known problems, by name."""
    practice: ClassVar[Practice] = Practice()
    """How it is trained where nobody says otherwise."""

    dim: PositiveInt
    in_channels: PositiveInt
    out_channels: PositiveInt
    periodic: bool | tuple[bool, ...] = False
    node_types: tuple[int, ...] = ()
    task: Literal["rollout"] = Field(default="rollout", exclude=True)
    parameters: NonNegativeInt = 0
    signals: NonNegativeInt = 0
    features: NonNegativeInt = 0
    cells: bool = False

    unwritten: ClassVar[tuple[str, ...]] = (*CONDITIONS, "cells")
    """Settings that stand in no file while they are what they were before there was a choice."""

    @classmethod
    def preset(cls: type[AnyModelConfig], name: str, **changes: Any) -> AnyModelConfig:
        """The paper's sizes for one of its problems, with changes laid over them (nested dictionaries merge)."""
        if name not in cls.presets:
            raise ConfigError(f"preset: there is no {name!r}. {suggestion(name, list(cls.presets))}")
        return cls.model_validate(merged(cls.presets[name], changes))

    @classmethod
    def tasks(cls) -> tuple[str, ...]:
        """What a model of this kind can be told to learn."""
        return get_args(cls.model_fields["task"].annotation)

    @model_serializer(mode="wrap")
    def _without_what_came_later(self, written: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        defaults = {name: type(self).model_fields[name].default for name in self.unwritten}
        return {name: value for name, value in written(self).items() if name not in defaults or value != defaults[name]}

    @model_validator(mode="after")
    def _conditions_fit(self) -> ModelConfig:
        told = [name for name in CONDITIONS if getattr(self, name)]
        if told and not self.abilities.conditions:
            raise ValueError(
                f"{told[0]}: this model is told nothing beside a state; leave it out, got {getattr(self, told[0])}"
            )
        if self.signals and self.task != "rollout":
            raise ValueError(f"signals change in time, and task {self.task!r} has none; leave them out, got {self.signals}")
        if self.parameters and self.task == "autoencoder":
            raise ValueError(f"parameters: an autoencoder takes no steps that they could change; got {self.parameters}")
        if self.cells and not self.abilities.cells:
            raise ValueError("cells: this model reads no edges of a mesh; leave it out")
        return self

    @property
    def told_channels(self) -> int:
        """How many numbers a step is told beside the state: parameters, and signals of its frame and the next (`STEP`)."""
        return self.parameters + 2 * self.signals

    @property
    def abilities(self) -> Abilities:
        """What a model of this configuration can do."""
        return Abilities()

    @property
    def zero_stays(self) -> bool:
        """Whether it is given fields whose zero is zero: divided by their root mean square, and not centered."""
        return False

    def latent_numbers(self, num_points: int) -> int | None:
        """How many numbers stand for a frame on so many points: points, tokens or modes × channels, as the paper counts them.

        None for a model that nobody has counted.
        """
        return None

    @abstractmethod
    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Model:
        """The model with weights drawn from the seed; `mesh` is what a mesh prior samples from, in unit coordinates."""
