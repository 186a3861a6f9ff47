"""UPT: tokens of a field from supernodes, their next frame by a transformer, and the field at any points from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import torch
from torch import nn

from calm_pde.errors import InputError
from calm_pde.geometry import periodic_axes
from calm_pde.metrics.relative_l2 import relative_l2_loss
from calm_pde.models.checks import check_coordinates, check_finite, check_one_per_sample
from calm_pde.models.conditions import between, check_conditions, check_prescribed, transitions
from calm_pde.models.contract import STEP, Answer, Model, Reading
from calm_pde.models.doors import check_node_type, check_state, check_timeless, frames
from calm_pde.models.point_features import NodeTypes, shown
from calm_pde.models.stepwise import whole_frames
from calm_pde.models.upt.blocks import HELD, Block, Told
from calm_pde.models.upt.config import UptConfig
from calm_pde.models.upt.decoder import Decoder
from calm_pde.models.upt.encoder import Encoder, Read, graph_of
from calm_pde.nn.chunked import within
from calm_pde.records.inputs import Conditions, Frames, Inputs
from calm_pde.types import Float, Tensor


class Upt(Model):
    """u(t) = decode(z(t)), z(t + 1) = blocks(z(t)), z(0) = encode(u(0)).

    Features stand beside the values that are encoded; parameters and signals scale, shift and gate every block: those of a
    step, and of its one moment those of encoder and decoder.
    """

    undecayed = ("tokens",)

    def __init__(self, config: UptConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: UptConfig = config
        self.periodic = periodic_axes(config.periodic, config.dim)
        generator = torch.Generator().manual_seed(seed)
        self.node_types = NodeTypes(config.node_types, config.node_type_width, generator)
        self.told = Told(config.told_channels, config.told_width, generator) if config.told_channels else None
        self.encoder = Encoder(config, generator)
        step = {"told": config.told_width, "dropped": config.dropped_paths}
        self.blocks = nn.ModuleList(Block(config.width, config.heads, generator, **step) for _ in range(config.blocks))
        self.decoder = Decoder(config, generator)

    def reading(self) -> dict[str, Reading]:
        first = "lift.weight" if self.config.supernodes is None else "lift.0.weight"
        return {
            f"encoder.reader.{first}": Reading(self.config.in_channels, ("features",)),
            "told.expand.weight": Reading(0, STEP),
        }

    @property
    def outermost(self) -> tuple[str, ...]:
        first = "lift" if self.config.supernodes is None else "lift.0"
        return (f"encoder.reader.{first}", "decoder.last")

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
        """A steady model gives its one field without num_steps."""
        given, count = Inputs(values, points, mask=mask, node_type=node_type, **conditions), self._steps(num_steps)
        self._check(given, count)
        if queries is not None:
            check_coordinates("queries", queries, self.config.dim, values.dtype)
            check_one_per_sample("queries", queries, tuple(values.shape[:1]), "values")
            check_finite("queries", queries)
        wanted = list(range(1, count + 1))
        zs = self._trajectory(given, count)
        return self._answers(zs[:, wanted], given, wanted, queries)

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
        return self._rolled(Inputs(values, points, mask=mask, node_type=node_type, **conditions), times)[1]

    def following(
        self,
        states: Tensor,
        points: Tensor,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Float[Tensor, "batch time point channel"]:
        self.require_time("following")
        given, count = Frames(states, points, mask, node_type, **conditions).start, states.shape[1]
        self._check(given, count)
        z = self._encoded(states, given, self._read(given), list(range(count)))
        steps = transitions(given, 0, count)
        stepped = self._step(z.flatten(0, 1), None if steps is None else steps.flatten(0, 1))
        return self._answers(stepped.unflatten(0, states.shape[:2]), given, list(range(1, count + 1)))

    def training_answer(self, frames: Frames, times: Sequence[float]) -> Answer:
        """The rollout; what the inverse losses weigh is added: frame 0 decoded as it was encoded, and answers encoded again."""
        config = self.config
        if not config.inverse_encoding and not config.inverse_decoding:
            return super().training_answer(frames, times)
        given, wanted, added = frames.start, whole_frames(times), 0.0
        zs, answer = self._rolled(given, times)
        if config.inverse_encoding:
            back = self._answers(zs[:, :1], given, [0])
            added = added + config.inverse_encoding * relative_l2_loss(back, frames.values[:, :1], given.mask)
        if config.inverse_decoding and wanted:
            again = self._encoded(answer[:, 1:], given, self._read(given), wanted)
            wrong = relative_l2_loss(again.flatten(2)[..., None], zs[:, wanted].flatten(2)[..., None])
            added = added + config.inverse_decoding * wrong
        return Answer(answer, added)

    def _rolled(self, given: Inputs, times: Sequence[float]) -> tuple[Tensor, Tensor]:
        """Tokens of all frames up to the last of the times, and what `rollout` answers."""
        self.require_time("rollout")
        wanted = whole_frames(times)
        self._check(given, max(wanted, default=0))
        zs, mask = self._trajectory(given, max(wanted, default=0)), given.mask
        first = (given.values if mask is None else given.values.masked_fill(~mask[..., None], 0.0))[:, None]
        return zs, first if not wanted else torch.cat([first, self._answers(zs[:, wanted], given, wanted)], dim=1)

    def _trajectory(self, given: Inputs, count: int) -> Float[Tensor, "batch time token channel"]:
        """The tokens of frame 0, and after each of so many steps."""
        states = [self._encoded(given.values[:, None], given, self._read(given), [0])[:, 0]]
        steps = transitions(given, 0, count) if count else None
        held = HELD * states[0].numel() * states[0].element_size() * len(self.blocks) * count
        for step in range(count):
            known = None if steps is None else steps[:, step]
            states.append(within(self._step, states[-1], known, held=held, budget=self.config.memory_budget))
        return torch.stack(states, dim=1)

    def _step(self, z: Float[Tensor, "row token channel"], known: Tensor | None) -> Float[Tensor, "row token channel"]:
        c = None if self.told is None or known is None else self.told(known)
        for block in self.blocks:
            z = block(z, c)
        return z

    def _read(self, given: Inputs) -> Read:
        nodes, points = self.config.supernodes, shown(given.points, given.mask)
        return Read(points, given.mask, None if nodes is None else graph_of(points, given.mask, nodes, self.periodic))

    def _encoded(
        self, states: Float[Tensor, "batch time point in"], given: Inputs, read: Read, at: list[int]
    ) -> Float[Tensor, "batch time token channel"]:
        """Tokens of states at so many frames, with what does not change at their points."""
        parts = [states] if given.features is None else [states, given.features[:, None]]
        if given.node_type is not None and self.node_types.width:
            kinds = self.node_types(given.node_type)
            parts.append(kinds[:, None] if kinds.ndim == 3 else kinds)
        x = torch.cat([part.expand(*states.shape[:3], -1) for part in parts], dim=-1)
        if given.mask is not None:
            x = x.masked_fill(~given.mask[:, None, :, None], 0.0)
        return self.encoder(x.flatten(0, 1), read, self._moments(given, at)).unflatten(0, states.shape[:2])

    def _answers(
        self,
        zs: Float[Tensor, "batch time token channel"],
        given: Inputs,
        at: list[int],
        queries: Tensor | None = None,
    ) -> Float[Tensor, "batch time query out"]:
        """Fields of the tokens at so many frames, at the queries; by default at the points, zero where these are masked."""
        where = shown(given.points, given.mask) if queries is None else shown(queries, None)
        u = self.decoder(zs.flatten(0, 1), where, self._moments(given, at)).unflatten(0, zs.shape[:2])
        return u if queries is not None or given.mask is None else u.masked_fill(~given.mask[:, None, :, None], 0.0)

    def _moments(self, given: Inputs, at: list[int]) -> Float[Tensor, "row told"] | None:
        """What is told of each moment: of a step from it to itself."""
        moments = [float(frame) for frame in at]
        known = between(given, moments, moments)
        return None if self.told is None or known is None else self.told(known.flatten(0, 1))

    def _steps(self, num_steps: int | None) -> int:
        if self.config.task == "steady":
            check_timeless(self.config.task, 1, num_steps)
            return 1
        count = len(frames(num_steps, None))
        if count == 0:
            raise InputError("num_steps", expected="at least 1", got="0", fix="The state at 0 is what was given.")
        return count

    def _check(self, given: Inputs, last: int) -> None:
        config, dtype = self.config, self.checked_dtype()
        check_state(given.values, given.points, given.mask, config.dim, config.in_channels, dtype)
        check_node_type(given.node_type, config.node_types, given.values, given.mask)
        check_conditions(given, config, dtype, last=float(last))
        check_prescribed(given, config)
