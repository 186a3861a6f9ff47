"""Models that map one frame to the next on the same points; later frames come from feeding their answers back.

Those that can be told a steady problem map its features to its one field by the same step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Unpack

import torch
from pydantic import model_validator

from calm_pde.errors import InputError
from calm_pde.geometry import periodic_axes
from calm_pde.models.checks import check_coordinates, check_finite, check_one_per_sample
from calm_pde.models.conditions import check_conditions, check_prescribed, transitions
from calm_pde.models.contract import STEP, Abilities, Model, ModelConfig
from calm_pde.models.doors import check_node_type, check_state, check_timeless, frames
from calm_pde.records.inputs import Conditions, Frames, Inputs
from calm_pde.types import Float, Tensor

_ROUNDING = 1e-5  # of a time: what a file may have done to evenly spaced ones


BESIDE = ("features", *STEP)
"""What is told beside a state, see `beside`."""


class StepwiseConfig(ModelConfig):
    """The configuration of a model whose answers are its next inputs.

    One whose `step` reads `given_channels` declares in its abilities that it takes conditions; one that learns steady problems
    too declares `task` again.
    """

    @model_validator(mode="after")
    def _frames_follow_frames(self) -> StepwiseConfig:
        periodic_axes(self.periodic, self.dim)
        if self.task == "rollout" and self.in_channels != self.out_channels:
            raise ValueError(f"a frame follows a frame: out_channels must be {self.in_channels}, got {self.out_channels}")
        if len(set(self.node_types)) != len(self.node_types):
            raise ValueError(f"node_types must differ from one another, got {self.node_types}")
        return self

    @property
    def abilities(self) -> Abilities:
        return Abilities(frame_to_frame=self.task == "rollout")

    @property
    def given_channels(self) -> int:
        """What the first map reads at every point: the state, features, parameters, and signals of this frame and the next."""
        return self.in_channels + self.features + self.told_channels


class Stepwise(Model):
    """u(t + 1) = f(u(t) ‖ φ ‖ θ ‖ c(t) ‖ c(t + 1)), with features φ of the points, parameters θ and signals c where there are
    some; what depends on the mesh alone is computed once per call, in `geometry`.

    Values that are prescribed are put into the frames that it is fed. Of a steady problem u(t) are its features, and the answer
    is f of them.
    """

    @abstractmethod
    def geometry(self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None) -> Any:
        """What `step` needs of the mesh; `queries` is where its answers are wanted, the points where it is None.

        A model that can't do a thing (free queries, irregular points, own meshes per sample) raises an `InputError` here.
        """

    def geometry_of(self, given: Inputs, queries: Tensor | None) -> Any:
        """`geometry` of what is given; a model that reads more of a mesh, such as its cells, takes it from there."""
        return self.geometry(given.points, given.mask, given.node_type, queries)

    @abstractmethod
    def step(self, states: Float[Tensor, "batch time point given"], geometry: Any) -> Float[Tensor, "batch time query channel"]:
        """The frame after each of the states, of which conditions are the last channels (`config.given_channels` in all).

        Masked points are never read, and what is answered there is not read either.
        """

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
        given, count = Inputs(values, points, mask=mask, node_type=node_type, **conditions), self._count(num_steps)
        self._check(given, count)
        if queries is None:
            return torch.cat(self._rolled(given, count)[0], dim=1)
        check_coordinates("queries", queries, self.config.dim, values.dtype)
        check_one_per_sample("queries", queries, tuple(values.shape[:1]), "values")
        check_finite("queries", queries)
        there = self.geometry_of(given, queries)
        states = values[:, None]
        if count > 1:
            states = torch.cat([states, *self._rolled(given, count - 1)[1]], dim=1)
        return self.step(beside(states, given), there)

    def rollout(
        self,
        values: Tensor,
        points: Tensor,
        times: Sequence[float],
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Tensor:
        """The state as it is given, then the frames at `times`, which are whole."""
        self.require_time("rollout")
        given, wanted = Inputs(values, points, mask=mask, node_type=node_type, **conditions), whole_frames(times)
        self._check(given, max(wanted, default=0))
        first = _without(values[:, None], mask)
        if not wanted:
            return first
        rolled = torch.cat(self._rolled(given, wanted[-1])[0], dim=1)
        return torch.cat([first, rolled[:, [frame - 1 for frame in wanted]]], dim=1)

    def following(
        self,
        states: Float[Tensor, "batch time point channel"],
        points: Tensor,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Float[Tensor, "batch time point channel"]:
        self.require_time("following")
        given = Frames(states, points, mask, node_type, **conditions).start
        check_conditions(given, self.config, self.checked_dtype(), last=float(states.shape[1]))
        return _without(self.step(beside(states, given), self.geometry_of(given, None)), mask)

    def _rolled(self, given: Inputs, count: int) -> tuple[list[Tensor], list[Tensor]]:
        """Frames 1 … count, each from the one before it: as they are answered, and as the next one is given them."""
        geometry = self.geometry_of(given, None)
        state, rolled, fed = given.values[:, None], [], []
        for frame in range(count):
            answer = _without(self.step(beside(state, given, frame), geometry), given.mask)
            state = prescribed(answer, given, frame + 1)
            rolled.append(answer)
            fed.append(state)
        return rolled, fed

    def _count(self, num_steps: int | None) -> int:
        """How many steps are asked for; a steady problem has one answer, which is one step."""
        if self.config.task == "steady":
            check_timeless(self.config.task, 1, num_steps)
            return 1
        count = len(frames(num_steps, None))
        if count == 0:
            raise InputError("num_steps", expected="at least 1", got="0", fix="The state at 0 is what was given.")
        return count

    def _check(self, given: Inputs, last: int) -> None:
        config = self.config
        dtype = self.checked_dtype()
        check_state(given.values, given.points, given.mask, config.dim, config.in_channels, dtype)
        check_node_type(given.node_type, config.node_types, given.values, given.mask)
        check_conditions(given, config, dtype, last=float(last))
        check_prescribed(given, config)


def beside(
    states: Float[Tensor, "batch time point channel"], given: Inputs, first: int = 0
) -> Float[Tensor, "batch time point given"]:
    """The states at frames first, first + 1, … with their conditions: features, parameters, and signals of each frame and of
    the one after it."""
    parts, known = [states], transitions(given, first, states.shape[1])
    if given.features is not None:
        parts.append(given.features[:, None])
    if known is not None:
        parts.append(known[:, :, None])
    if len(parts) == 1:
        return states
    return torch.cat([part.expand(*states.shape[:3], -1) for part in parts], dim=-1)


def prescribed(
    states: Float[Tensor, "batch 1 point channel"], given: Inputs, frame: int
) -> Float[Tensor, "batch 1 point channel"]:
    """The states at a frame, with the values that are known there in advance."""
    if given.prescribed is None or given.prescribed.shape[1] < frame:
        return states
    known = given.prescribed[:, frame - 1 : frame]
    return torch.where(known.isnan(), states, known.to(states.dtype))


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
