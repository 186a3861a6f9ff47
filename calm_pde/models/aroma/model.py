"""AROMA: tokens of a field by cross attention, their next frame by diffusion, and the field at any points from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Unpack

import torch
from pydantic import model_validator
from torch import nn

from calm_pde.errors import InputError
from calm_pde.models.aroma.autoencoder import Autoencoder, AutoencoderConfig
from calm_pde.models.aroma.dynamics import Dynamics, DynamicsConfig
from calm_pde.models.aroma.practice import PRACTICE
from calm_pde.models.aroma.presets import PRESETS
from calm_pde.models.checks import check_coordinates, check_finite, check_one_per_sample
from calm_pde.models.conditions import check_conditions, check_prescribed, transitions
from calm_pde.models.contract import STEP, Abilities, Mesh, Model, ModelConfig, Reading, Stage
from calm_pde.models.doors import check_node_type, check_state, frames
from calm_pde.models.draws import Draws
from calm_pde.models.point_features import shown
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import whole_frames
from calm_pde.records.inputs import Conditions, Driving, Frames, Inputs
from calm_pde.types import Float, Tensor


class AromaConfig(ModelConfig):
    """All sizes of an AROMA; `preset` has the paper's, and `…_small` twins of them."""

    title: ClassVar[str] = "AROMA"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    autoencoder: AutoencoderConfig
    dynamics: DynamicsConfig = DynamicsConfig()

    @model_validator(mode="after")
    def _parts_fit(self) -> AromaConfig:
        if self.in_channels != self.out_channels:
            raise ValueError(f"out_channels must be in_channels, {self.in_channels}, got {self.out_channels}")
        if self.node_types:
            raise ValueError("aroma is not told the kinds of points; leave node_types out")
        return self

    @property
    def abilities(self) -> Abilities:
        return Abilities(bfloat16_weights=True, conditions=True, stages=(Stage("autoencoder", 1), Stage("dynamics", 2)))

    def latent_numbers(self, num_points: int) -> int:
        return self.autoencoder.num_tokens * self.autoencoder.latent_channels

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Aroma:
        return Aroma(self, seed)


class Aroma(Model):
    """u(t) = decode(z(t)), z(t + 1) refined from noise given z(t), z(0) the mean of encode(u(0)); whole frames only.

    Features stand beside the values that are encoded; parameters, and signals of both frames of a step, join its noise level.
    """

    def __init__(self, config: AromaConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: AromaConfig = config
        sizes, generator = config.autoencoder, torch.Generator().manual_seed(seed)
        self.autoencoder = Autoencoder(sizes, config.dim, config.in_channels, config.features, generator)
        self.dynamics = Dynamics(config.dynamics, sizes.num_tokens, sizes.latent_channels, config.told_channels, generator)

    def reading(self) -> dict[str, Reading]:
        return {
            "autoencoder.encoder.lift.weight": Reading(self.config.in_channels, ("features",)),
            "dynamics.network.told.weight": Reading(0, STEP),
        }

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("autoencoder.encoder.lift", f"autoencoder.decoder.field.{len(self.autoencoder.decoder.field) - 1}")

    def encode(
        self,
        values: Tensor,
        points: Tensor,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        features: Tensor | None = None,
    ) -> Float[Tensor, "batch token channel"]:
        """The mean tokens of the values (batch, point, channel), and of features of the points."""
        check_state(values, points, mask, self.config.dim, self.config.in_channels, self.checked_dtype())
        check_node_type(node_type, self.config.node_types, values, mask)
        given = Inputs(values, points, mask=mask, features=features)
        check_conditions(given, self.config, self.checked_dtype(), ("features",))
        return self._encoded(values, points, mask, features)

    def advance(
        self,
        z: Float[Tensor, "batch token channel"],
        num_steps: int,
        **driving: Unpack[Driving],
    ) -> Float[Tensor, "batch time token channel"]:
        """z itself, then the tokens after each of `num_steps` frames."""
        count = len(frames(num_steps, None))
        given = Inputs(z, z, **driving)
        check_conditions(given, self.config, self.checked_dtype(), ("parameters", "signals"), float(count))
        return self.dynamics.trajectory(z, count, transitions(given, 0, count))

    def decode(
        self, zs: Float[Tensor, "batch time token channel"], queries: Float[Tensor, "*cloud query dim"]
    ) -> Float[Tensor, "batch time query out"]:
        """Fields at the queries, frame by frame, which bounds the memory that the attention takes."""
        where = shown(queries, None)
        return torch.stack([self.autoencoder.decoder(z, where) for z in zs.unbind(dim=1)], dim=1)

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
        given, count = Inputs(values, points, mask=mask, node_type=node_type, **conditions), len(frames(num_steps, None))
        z = self._start(given)
        if count == 0:
            raise InputError("num_steps", expected="at least 1", got="0", fix="Use encode and decode to reconstruct the state.")
        zs = self.advance(z, count, **given.driving)[:, 1:]
        if queries is None:
            return self._at_points(zs, points, mask)
        check_coordinates("queries", queries, self.config.dim, values.dtype)
        check_one_per_sample("queries", queries, tuple(values.shape[:1]), "values")
        check_finite("queries", queries)
        return self.decode(zs, queries)

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
        given, wanted = Inputs(values, points, mask=mask, node_type=node_type, **conditions), whole_frames(times)
        z = self._start(given)
        first = (values if mask is None else values.masked_fill(~mask[..., None], 0.0))[:, None]
        if not wanted:
            return first
        zs = self.advance(z, wanted[-1], **given.driving)[:, wanted]
        return torch.cat([first, self._at_points(zs, points, mask)], dim=1)

    def _start(self, given: Inputs) -> Float[Tensor, "batch token channel"]:
        check_prescribed(given, self.config)
        return self.encode(given.values, given.points, given.mask, given.node_type, given.features)

    def part(self, stage: str) -> nn.Module:
        return {"autoencoder": self.autoencoder, "dynamics": self.dynamics}[stage]

    def stage_losses(self, stage: str, frames: Frames, draws: Draws) -> Float[Tensor, "batch"]:
        """Of the autoencoder on single frames; of the dynamics on two, between the mean tokens of a frozen autoencoder."""
        values, points, mask, features = frames.values, frames.points, frames.mask, frames.features
        if stage == "autoencoder":
            return self.autoencoder.losses(values[:, 0], points, mask, draws, features)
        with torch.no_grad():
            before, after = (self._encoded(values[:, frame], points, mask, features).to(values) for frame in (0, 1))
        told = transitions(frames.start, 0, 1)
        return self.dynamics.losses(before, after, draws, None if told is None else told[:, 0])

    @torch.no_grad()
    def prepare(self, stage: str, training: Iterable[Frames]) -> None:
        """Mean and deviation of the tokens over all training frames, where the dynamics standardizes them."""
        if stage != "dynamics" or not self.config.dynamics.standardize:
            return
        total = count = 0
        for known in training:
            for values in known.values.unbind(dim=1):
                z = self._encoded(values, known.points, known.mask, known.features).double().flatten(0, 1)
                total, count = total + torch.stack([z.sum(dim=0), z.square().sum(dim=0)]), count + len(z)
        mean, square = torch.as_tensor(total / max(1, count))
        self.dynamics.mean.copy_(mean)
        self.dynamics.std.copy_((square - mean.square()).clamp(min=1e-12).sqrt())

    def _encoded(self, values: Tensor, points: Tensor, mask: Tensor | None, features: Tensor | None) -> Tensor:
        read = values if features is None else torch.cat([values, features], dim=-1)
        return self.autoencoder.encoder(read, points, mask)[0]

    def _at_points(self, zs: Tensor, points: Tensor, mask: Tensor | None) -> Tensor:
        u = self.decode(zs, shown(points, mask))
        return u if mask is None else u.masked_fill(~mask[:, None, :, None], 0.0)
