"""Models that map one frame to the next on the same points; later frames come from feeding their answers back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from pydantic import model_validator

from calm_pde.errors import InputError
from calm_pde.geometry import periodic_axes
from calm_pde.models.checks import check_coordinates, check_finite, check_one_per_sample
from calm_pde.models.contract import Abilities, Model, ModelConfig
from calm_pde.models.doors import check_node_type, check_state, frames
from calm_pde.types import Float, Tensor

_ROUNDING = 1e-5  # of a time: what a file may have done to evenly spaced ones


class StepwiseConfig(ModelConfig):
    """The configuration of a model whose answers are its next inputs."""

    @model_validator(mode="after")
    def _frames_follow_frames(self) -> StepwiseConfig:
        periodic_axes(self.periodic, self.dim)
        if self.in_channels != self.out_channels:
            raise ValueError(f"a frame follows a frame: out_channels must be {self.in_channels}, got {self.out_channels}")
        if len(set(self.node_types)) != len(self.node_types):
            raise ValueError(f"node_types must differ from one another, got {self.node_types}")
        return self

    @property
    def abilities(self) -> Abilities:
        return Abilities(frame_to_frame=True)


class Stepwise(Model):
    """u(t + 1) = f(u(t)); what depends on the mesh alone is computed once per call, in `geometry`."""

    @abstractmethod
    def geometry(self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None) -> Any:
        """What `step` needs of the mesh; `queries` is where its answers are wanted, the points where it is None.

        A model that can't do a thing (free queries, irregular points, own meshes per sample) raises an `InputError` here.
        """

    @abstractmethod
    def step(
        self, states: Float[Tensor, "batch time point channel"], geometry: Any
    ) -> Float[Tensor, "batch time query channel"]:
        """The frame after each of the states. Masked points are never read, and what is answered there is not read either."""

    def forward(
        self,
        values: Tensor,
        points: Tensor,
        num_steps: int | None = None,
        queries: Tensor | None = None,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
    ) -> Tensor:
        self._check(values, points, mask, node_type)
        count = len(frames(num_steps, None))
        if count == 0:
            raise InputError("num_steps", expected="at least 1", got="0", fix="The state at 0 is what was given.")
        if queries is None:
            return self._rolled(values, count, self.geometry(points, mask, node_type, None), mask)
        check_coordinates("queries", queries, self.config.dim, values.dtype)
        check_one_per_sample("queries", queries, tuple(values.shape[:1]), "values")
        check_finite("queries", queries)
        there = self.geometry(points, mask, node_type, queries)
        states = values[:, None]
        if count > 1:
            here = self.geometry(points, mask, node_type, None)
            states = torch.cat([states, self._rolled(values, count - 1, here, mask)], dim=1)
        return self.step(states, there)

    def rollout(
        self,
        values: Tensor,
        points: Tensor,
        times: Sequence[float],
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
    ) -> Tensor:
        """The state as it is given, then the frames at `times`, which are whole."""
        self._check(values, points, mask, node_type)
        wanted = whole_frames(times)
        first = _without(values[:, None], mask)
        if not wanted:
            return first
        rolled = self._rolled(values, wanted[-1], self.geometry(points, mask, node_type, None), mask)
        return torch.cat([first, rolled[:, [frame - 1 for frame in wanted]]], dim=1)

    def following(
        self,
        states: Float[Tensor, "batch time point channel"],
        points: Tensor,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
    ) -> Float[Tensor, "batch time point channel"]:
        return _without(self.step(states, self.geometry(points, mask, node_type, None)), mask)

    def _rolled(self, values: Tensor, count: int, geometry: Any, mask: Tensor | None) -> Tensor:
        """Frames 1 … count, each from the one before it."""
        state, rolled = values[:, None], []
        for _ in range(count):
            state = _without(self.step(state, geometry), mask)
            rolled.append(state)
        return torch.cat(rolled, dim=1)

    def _check(self, values: Tensor, points: Tensor, mask: Tensor | None, node_type: Tensor | None) -> None:
        config = self.config
        check_state(values, points, mask, config.dim, config.in_channels, self.checked_dtype())
        check_node_type(node_type, config.node_types, values, mask)


def whole_frames(times: Sequence[float]) -> list[int]:
    """The times as numbers of frames; what is one but for rounding is one."""
    times = frames(None, times) if len(times) else []
    broken = [time for time in times if abs(time - round(time)) > _ROUNDING * max(1.0, time)]
    if broken:
        raise InputError(
            "times",
            expected="whole frames, since this model goes from frame to frame",
            got=f"{broken[0]:g} frames",
            fix="Ask at multiples of the frame spacing, or use a model that is continuous in time (calm).",
        )
    return [round(time) for time in times]


def _without(values: Tensor, mask: Tensor | None) -> Tensor:
    """Zero where points are masked."""
    return values if mask is None else values.masked_fill(~mask[:, None, :, None], 0.0)
