"""GAOT: points to a grid of tokens, a vision transformer there, and the time derivative at any points from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Unpack

import torch

from calm_pde.data.differences import Differences
from calm_pde.errors import InputError
from calm_pde.geometry import periodic_axes
from calm_pde.models.checks import check_coordinates, check_finite, check_one_per_sample
from calm_pde.models.conditions import between, check_conditions, check_prescribed
from calm_pde.models.contract import Answer, Model, Reading
from calm_pde.models.doors import check_node_type, check_state, frames
from calm_pde.models.gaot.config import GaotConfig
from calm_pde.models.gaot.interpolation import interpolated, interpolation
from calm_pde.models.gaot.operator import MultiscaleOperator, Place
from calm_pde.models.gaot.processor import Processor
from calm_pde.models.gaot.steps import Step, steps_to
from calm_pde.models.point_features import NodeTypes, shown
from calm_pde.models.stepwise import BESIDE, prescribed
from calm_pde.nn.pointwise import perceptron, preserving
from calm_pde.records.inputs import Conditions, Frames, Inputs
from calm_pde.types import Float, Tensor

_NEAREST = 4  # tokens of a query that has none in reach


class Geometry(NamedTuple):
    """What a mesh alone decides: what tokens see of points, what queries see of tokens, and how a state is interpolated."""

    into: Any
    back: Any
    between: Any


class Gaot(Model):
    """u(t + τ) = u(t) + τ·σ ⊙ head(decode(blocks(encode(u(t) ‖ φ ‖ θ ‖ c(t) ‖ c(t + τ) ‖ τ); τ))), with σ the deviation of the
    differences between one frame and the next in training.

    In training each later frame of a window is one step of its own length from the given state (`trained_on`), so that
    `train.lead_times: all` shows all pairs of frames; a rollout goes in steps of `stride` frames, and to a time between by a
    shorter one.
    """

    lattice: Tensor
    deviation: Tensor

    def __init__(self, config: GaotConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: GaotConfig = config
        self.periodic = periodic_axes(config.periodic, config.dim)
        generator = torch.Generator().manual_seed(seed)
        axes = torch.meshgrid(*(torch.arange(size) for size in config.grid), indexing="ij")
        self.register_buffer("lattice", torch.stack(axes, dim=-1).view(math.prod(config.grid), config.dim), persistent=False)
        self.register_buffer("deviation", torch.ones(config.out_channels))
        self.node_types = NodeTypes(config.node_types, config.node_type_width, generator)
        self.lift = preserving(config.read_channels, config.width, generator)
        self.encoder = MultiscaleOperator(config, generator)
        self.processor = Processor(config, generator)
        self.decoder = MultiscaleOperator(config, generator)
        self.head = perceptron((config.width, config.width, config.out_channels), generator)

    def places(self, dtype: torch.dtype) -> Float[Tensor, "token dim"]:
        """Where the tokens are: the centers of the grid's cells."""
        return (self.lattice.to(dtype) + 0.5) / torch.tensor(self.config.grid, dtype=dtype, device=self.lattice.device)

    def reading(self) -> dict[str, Reading]:
        return {"lift.weight": Reading(self.config.in_channels, BESIDE)}

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("lift", "head.2")

    @property
    def difference_deviation(self) -> Float[Tensor, "channel"]:
        return self.deviation

    @torch.no_grad()
    def gather(self, training: Iterable[Frames]) -> None:
        found = Differences(self.config.out_channels)
        for some in training:
            found.add(some)
        self.deviation.copy_(found.deviation())

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - it takes more by name
        self,
        values: Tensor,
        points: Tensor,
        num_steps: int | None = None,
        queries: Tensor | None = None,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        *,
        times: Sequence[float] | None = None,
        **conditions: Unpack[Conditions],
    ) -> Tensor:
        """Frames 1 … num_steps, or those at `times`, at the queries: (batch, time, query, channel)."""
        given, wanted = Inputs(values, points, mask=mask, node_type=node_type, **conditions), frames(num_steps, times)
        self._check(given, max(wanted, default=0.0))
        if not wanted:
            raise InputError("num_steps", expected="at least 1", got="0", fix="The state at 0 is what was given.")
        if queries is None:
            return self._at(wanted, given, self.config.stride)
        check_coordinates("queries", queries, self.config.dim, values.dtype)
        check_one_per_sample("queries", queries, tuple(values.shape[:1]), "values")
        check_finite("queries", queries)
        return self._at(wanted, given, self.config.stride, queries)

    def rollout(
        self,
        values: Tensor,
        points: Tensor,
        times: Sequence[float],
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Tensor:
        """The state as it is given, then the frames at `times`."""
        return self._rolled(Inputs(values, points, mask=mask, node_type=node_type, **conditions), times, self.config.stride)

    def following(
        self,
        states: Tensor,
        points: Tensor,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Float[Tensor, "batch time point channel"]:
        given, count = Frames(states, points, mask, node_type, **conditions).start, states.shape[1]
        self._check(given, float(count))
        steps = [Step(float(frame), 1.0) for frame in range(count)]
        return self._stepped(states, steps, given, self._geometry(given))

    def training_answer(self, frames: Frames, times: Sequence[float]) -> Answer:
        """Every time by one step from frame 0, or the rollout; see `trained_on`."""
        if self.config.trained_on == "rollout":
            return super().training_answer(frames, times)
        return Answer(self._rolled(frames.start, times, None))

    def _rolled(self, given: Inputs, times: Sequence[float], stride: int | None) -> Tensor:
        wanted = frames(None, times) if len(times) else []
        self._check(given, max(wanted, default=0.0))
        first = (given.values if given.mask is None else given.values.masked_fill(~given.mask[..., None], 0.0))[:, None]
        return torch.cat([first, self._at(wanted, given, stride)], dim=1) if wanted else first

    def _at(
        self, wanted: list[float], given: Inputs, stride: int | None, queries: Tensor | None = None
    ) -> Float[Tensor, "batch time query channel"]:
        """The answers at the wanted times: whole strides one after the other, and from them what else is asked, at once."""
        steps, here = [steps_to(time, stride) for time in wanted], self._geometry(given)
        walked = {} if stride is None else self._walk(given, here, stride, steps, queries is None)
        fed = {0.0: given.values[:, None]} | {time: prescribed(u, given, round(time)) for time, u in walked.items()}
        last = [way[-1] for way in steps if queries is not None or way[-1].end not in walked]
        found = {}
        if last:
            there = here if queries is None else self._geometry(given, queries)
            states = torch.cat([fed[step.start] for step in last], dim=1)
            answers = self._stepped(states, last, given, there, masked=queries is None)
            found = dict(zip([step.end for step in last], answers.split(1, dim=1), strict=True))
        return torch.cat([(walked | found)[way[-1].end] for way in steps], dim=1)

    def _walk(
        self, given: Inputs, geometry: Geometry, stride: int, steps: list[list[Step]], to_the_end: bool
    ) -> dict[float, Tensor]:
        """The answers after 1, 2, … strides, as far as they are wanted, or wanted to go on from."""
        needed = [step.start for way in steps for step in way]
        needed += [way[-1].end for way in steps if way[-1].length == stride] if to_the_end else []
        state, walked = given.values[:, None], {}
        for number in range(round(max(needed) / stride)):
            step = Step(float(number * stride), float(stride))
            walked[step.end] = self._stepped(state, [step], given, geometry)
            state = prescribed(walked[step.end], given, round(step.end))
        return walked

    def _geometry(self, given: Inputs, queries: Tensor | None = None) -> Geometry:
        points, tokens = shown(given.points, given.mask), Place(self.places(given.points.dtype)[None])
        where = points if queries is None else shown(queries, None)
        into = self.encoder.sights(Place(points, given.mask), tokens, self.periodic, compared=True)
        back = self.decoder.sights(tokens, Place(where), self.periodic, fewest=_NEAREST)
        between = None
        if queries is not None and self.config.answer != "state":
            between = interpolation(points, where, given.mask, self.periodic)
        return Geometry(into, back, between)

    def _stepped(
        self,
        states: Float[Tensor, "batch time point channel"],
        steps: list[Step],
        given: Inputs,
        geometry: Geometry,
        masked: bool = True,
    ) -> Float[Tensor, "batch time query channel"]:
        """The state after each of the steps, from a state for each."""
        mask = given.mask
        states = states if mask is None else states.masked_fill(~mask[:, None, :, None], 0.0)
        lead = states.new_tensor([step.length for step in steps])
        read = self._read(states, steps, lead / self.config.horizon, given)
        tokens = self.encoder(self.lift(read.flatten(0, 1)), geometry.into)
        tokens = self.processor(tokens, (lead / self.config.horizon).repeat(len(states))[:, None])
        said = self.head(self.decoder(tokens, geometry.back)).unflatten(0, states.shape[:2])
        if self.config.answer != "state":
            start = states
            if geometry.between is not None:
                start = interpolated(states.flatten(0, 1), *geometry.between).unflatten(0, states.shape[:2])
            change = self.deviation * said
            said = start + (lead[:, None, None] * change if self.config.answer == "derivative" else change)
        return said.masked_fill(~mask[:, None, :, None], 0.0) if masked and mask is not None else said

    def _read(
        self, states: Float[Tensor, "batch time point channel"], steps: list[Step], lead: Float[Tensor, "time"], given: Inputs
    ) -> Float[Tensor, "batch time point in"]:
        """The states ‖ features ‖ parameters ‖ signals at both ends of each step ‖ its length ‖ what kind of point it is."""
        parts, known = [states], between(given, [step.start for step in steps], [step.end for step in steps])
        if given.features is not None:
            hidden = None if given.mask is None else ~given.mask[..., None]
            parts.append((given.features if hidden is None else given.features.masked_fill(hidden, 0.0))[:, None])
        if known is not None:
            parts.append(known[:, :, None])
        parts.append(lead[None, :, None, None])
        if given.node_type is not None and self.node_types.width:
            kinds = self.node_types(given.node_type)
            parts.append(kinds[:, None] if kinds.ndim == 3 else kinds[None, None])
        return torch.cat([part.to(states).expand(*states.shape[:3], -1) for part in parts], dim=-1)

    def _check(self, given: Inputs, last: float) -> None:
        config, dtype = self.config, self.checked_dtype()
        check_state(given.values, given.points, given.mask, config.dim, config.in_channels, dtype)
        check_node_type(given.node_type, config.node_types, given.values, given.mask)
        check_conditions(given, config, dtype, last=last)
        check_prescribed(given, config)
