"""The contract that every model keeps, whatever is inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from pydantic import PositiveInt
from torch import nn

from calm_pde.config import Config, merged, suggestion
from calm_pde.errors import ConfigError
from calm_pde.models.practice import Practice
from calm_pde.types import Tensor

AnyModelConfig = TypeVar("AnyModelConfig", bound="ModelConfig")

Mesh = Tensor | np.ndarray | Sequence[Tensor | np.ndarray]


class Stage(NamedTuple):
    """A stage of training, in which one part of a model learns on windows of so many frames."""

    name: str
    frames: int


class Abilities(NamedTuple):
    """What a kind of model can do in at least one of its forms, beyond answering on its own points at whole frames."""

    irregular_points: bool = True
    """Points need not be a grid."""
    free_queries: bool = True
    """Answers anywhere, not only at the points."""
    any_times: bool = False
    """Answers between frames."""
    bakes: bool = False
    """Freezes what depends on the mesh alone."""


class Model(nn.Module, ABC):
    """Maps a state on points to later states at queries; built from its config, in unit coordinates."""

    reconstructs: ClassVar[bool] = False
    """Whether `rollout` begins with the state as the decoder gives it back; otherwise with the state itself, in no loss."""

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
    ) -> Tensor:
        """Frames 1 … num_steps at the queries (default: the points), (batch, time, query, channel).

        A model that can't do a thing (free queries, irregular points) says so in an `InputError`.
        """

    @abstractmethod
    def rollout(
        self,
        values: Tensor,
        points: Tensor,
        times: Sequence[float],
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
    ) -> Tensor:
        """The state itself as the model sees it, then the frames at `times` (in frames), at the points; what is trained on."""


class ModelConfig(Config, ABC):
    """The configuration of one kind of model; the registry names it.

    Args:
        node_types: the codes that `node_type` may hold; empty where the model is not told the kind of a point.
    """

    title: ClassVar[str] = ""
    """Its name in tables; without one, that in the registry."""
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    """Sizes for known problems, by name."""
    abilities: ClassVar[Abilities] = Abilities()
    practice: ClassVar[Practice] = Practice()
    """How it is trained where nobody says otherwise."""
    stages: ClassVar[tuple[Stage, ...]] = ()
    """How the model is trained part by part, in this order (`Staged`); empty where it is trained as a whole."""

    dim: PositiveInt
    in_channels: PositiveInt
    out_channels: PositiveInt
    periodic: bool | tuple[bool, ...] = False
    node_types: tuple[int, ...] = ()

    @classmethod
    def preset(cls: type[AnyModelConfig], name: str, **changes: Any) -> AnyModelConfig:
        """The paper's sizes for one of its problems, with changes laid over them (nested dictionaries merge)."""
        if name not in cls.presets:
            raise ConfigError(f"preset: there is no {name!r}. {suggestion(name, list(cls.presets))}")
        return cls.model_validate(merged(cls.presets[name], changes))

    def latent_numbers(self, num_points: int) -> int | None:
        """How many numbers stand for a frame on so many points: points, tokens or modes × channels, as the paper counts them.

        None for a model that nobody has counted.
        """
        return None

    @abstractmethod
    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Model:
        """The model with weights drawn from the seed; `mesh` is what a mesh prior samples from, in unit coordinates."""
