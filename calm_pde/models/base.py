"""The contract that every model keeps, whatever is inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from torch import nn

from calm_pde.config import Config
from calm_pde.types import Tensor

Mesh = Tensor | np.ndarray | Sequence[Tensor | np.ndarray]


class Model(nn.Module, ABC):
    """Maps a state on points to later states at queries; built from its config, in unit coordinates."""

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
    """The configuration of one kind of model; the registry names it."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    """Sizes for known problems, by name."""

    @abstractmethod
    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Model:
        """The model with weights drawn from the seed; `mesh` is what a mesh prior samples from, in unit coordinates."""
