"""OFormer: encode a state with linear attention, carry its latent state at the queries through time, decode each frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Unpack

import torch
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from calm_pde.errors import InputError
from calm_pde.models.checks import check_coordinates, check_finite, check_one_per_sample
from calm_pde.models.conditions import check_conditions, check_prescribed, transitions
from calm_pde.models.contract import STEP, Abilities, Mesh, Model, Reading
from calm_pde.models.doors import check_node_type, check_state, check_timeless, frames
from calm_pde.models.oformer.linear_attention import Attention, Norm
from calm_pde.models.oformer.parts import Decoder, Encoder, Place
from calm_pde.models.oformer.practice import PRACTICE
from calm_pde.models.oformer.presets import PRESETS
from calm_pde.models.point_features import shown
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import BESIDE, StepwiseConfig, beside, whole_frames
from calm_pde.records.inputs import Conditions, Inputs
from calm_pde.types import Tensor

Even = Annotated[int, Field(ge=2, multiple_of=2)]


class OFormerConfig(StepwiseConfig):
    """All sizes and switches of an OFormer; `preset` has the paper's, `build` makes the model.

    Args:
        task: `rollout` in time, or `steady`: features to one field by one latent step.
        layout: which of the published models: `bare` (Burgers), `grid` (Navier-Stokes) or `mesh` (airfoil, node types).
        attention, norm: which linear attention, and what is normalized in it: see `LinearAttention`.
        rotary_scales: one per encoder block; angles of the rotations are scale · resolution · coordinate.
        latent_width: of the encoded state, and of the attention that answers.
        propagator_width: of the latent state that moves.
        cross_scale: the rotary scale of the attention that answers.
        heads: of that attention, each as wide as its features.
        fourier_std: of the frequencies of the queries' Fourier features.
        coordinate_scale: unit coordinates are multiplied by it before rotations and Fourier features; the length of the
            box keeps frequencies that were chosen for physical coordinates.
        dropout: of the encoded state.
    """

    title: ClassVar[str] = "OFormer"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE
    unwritten: ClassVar[tuple[str, ...]] = (*StepwiseConfig.unwritten, "task")

    task: Literal["rollout", "steady"] = "rollout"
    layout: Literal["bare", "grid", "mesh"] = "grid"
    attention: Attention = "galerkin"
    norm: Norm = "token"
    encoder_width: Even
    rotary_scales: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)]
    latent_width: Even
    propagator_width: Even
    propagator_layers: PositiveInt = 1
    heads: Annotated[int, Field(ge=2)] = 4
    cross_scale: PositiveFloat = 16.0
    resolution: PositiveFloat = 64.0
    fourier_std: PositiveFloat = 8.0
    coordinate_scale: PositiveFloat = 1.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0

    @property
    def node_type_width(self) -> int:
        """Channels of a node type's embedding."""
        return self.encoder_width if self.node_types else 0

    @property
    def answers_meet(self) -> bool:
        """Whether the answer at a point depends on which other points are asked."""
        return self.layout == "mesh" or (self.attention == "fourier" and self.norm == "domain")

    def frequency(self, scale: float) -> float:
        """Radians per unit coordinate of the fastest rotation."""
        return scale * self.resolution * self.coordinate_scale

    @model_validator(mode="after")
    def _parts_fit(self) -> OFormerConfig:
        if self.node_types and self.layout != "mesh":
            raise ValueError(f"node_types need layout: mesh, got {self.layout}")
        if self.layout == "bare" and self.propagator_width != self.latent_width:
            raise ValueError(
                f"propagator_width must equal latent_width {self.latent_width} in layout: bare, got {self.propagator_width}"
            )
        for name in ("encoder_width", "latent_width"):
            if getattr(self, name) < 2 * self.dim:
                raise ValueError(f"{name} must be at least {2 * self.dim}, so that every axis rotates two channels")
        return self

    @property
    def abilities(self) -> Abilities:
        return Abilities(free_queries=not self.answers_meet, bfloat16_weights=True, conditions=True)

    def latent_numbers(self, num_points: int) -> int:
        return num_points * self.latent_width

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> OFormer:
        return OFormer(self, seed)


class OFormer(Model):
    """u(t) = head(z(t)) with z(t + 1) = z(t) + MLP(z(t), p) at each query p, z(0) = Attn(RFF(p); encoder(u(0))); steady, the
    answer is u(1), with the features in the place of u(0).

    The encoder is told conditions beside u(0) as a model is that goes from frame to frame, and the MLP those of its step.
    """

    def __init__(self, config: OFormerConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: OFormerConfig = config
        generator = torch.Generator().manual_seed(seed)
        self.encoder = Encoder(config, generator)
        self.decoder = Decoder(config, generator)

    def reading(self) -> dict[str, Reading]:
        found = {"encoder.lift.0.weight": Reading(self.config.in_channels, BESIDE)}
        for name, weight in self.decoder.propagators.named_parameters():
            if name.endswith(".mlp.0.weight"):
                found[f"decoder.propagators.{name}"] = Reading(weight.shape[1] - self.config.told_channels, STEP)
        return found

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("encoder.lift.0", f"decoder.head.{len(self.decoder.head) - 1}")

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
        steady = self.config.task == "steady"
        if steady:
            check_timeless(self.config.task, 1, num_steps)
        given = Inputs(values, points, mask=mask, node_type=node_type, **conditions)
        wanted = [round(frame) for frame in frames(1 if steady else num_steps, None)]
        self._check(given, max(wanted, default=0))
        if not wanted:
            raise InputError("num_steps", expected="at least 1", got="0", fix="The state at 0 is what was given.")
        if queries is not None:
            check_coordinates("queries", queries, self.config.dim, values.dtype)
            check_one_per_sample("queries", queries, tuple(values.shape[:1]), "values")
            check_finite("queries", queries)
            if self.config.answers_meet:
                raise InputError(
                    "queries",
                    expected="none, since the answers of this layout depend on each other and on node types",
                    got=f"{queries.shape[-2]} of them",
                    fix="Ask at the points, or use layout: grid or a model that answers anywhere (calm).",
                )
        return self._frames(given, wanted, queries)

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
        first = (values if mask is None else values.masked_fill(~mask[..., None], 0.0))[:, None]
        if not wanted:
            return first
        return torch.cat([first, self._frames(given, wanted, None)], dim=1)

    def _frames(self, given: Inputs, wanted: list[int], queries: Tensor | None) -> Tensor:
        mask, codes = given.mask, given.node_type
        values = beside(given.values[:, None], given)[:, 0]
        if mask is not None:
            values = values.masked_fill(~mask[..., None], 0.0)
        codes = codes if codes is None or codes.ndim == 2 else codes[None]
        here = Place(shown(given.points, mask), codes, mask)
        there = here if queries is None else Place(shown(queries, None), None, None)
        z = self.decoder.start(self.encoder(values, here), here, there)
        u = self.decoder.frames(z, there, wanted, transitions(given, 0, wanted[-1]))
        return u if there.mask is None else u.masked_fill(~there.mask[:, None, :, None], 0.0)

    def _check(self, given: Inputs, last: int) -> None:
        config = self.config
        dtype = self.checked_dtype()
        check_state(given.values, given.points, given.mask, config.dim, config.in_channels, dtype)
        check_node_type(given.node_type, config.node_types, given.values, given.mask)
        check_conditions(given, config, dtype, last=float(last))
        check_prescribed(given, config)
