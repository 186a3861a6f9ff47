"""OFormer: encode a state with linear attention, carry its latent state at the queries through time, decode each frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from calm_pde.errors import InputError
from calm_pde.models.checks import check_coordinates, check_finite, check_one_per_sample
from calm_pde.models.contract import Abilities, Mesh, Model
from calm_pde.models.doors import check_node_type, check_state, frames
from calm_pde.models.oformer.linear_attention import Attention, Norm
from calm_pde.models.oformer.parts import Decoder, Encoder, Place
from calm_pde.models.oformer.practice import PRACTICE
from calm_pde.models.oformer.presets import PRESETS
from calm_pde.models.point_features import shown
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import StepwiseConfig, whole_frames
from calm_pde.types import Tensor

Even = Annotated[int, Field(ge=2, multiple_of=2)]


class OFormerConfig(StepwiseConfig):
    """All sizes and switches of an OFormer; `preset` has the paper's, `build` makes the model.

    Args:
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
        return Abilities(free_queries=not self.answers_meet, bfloat16_weights=True)

    def latent_numbers(self, num_points: int) -> int:
        return num_points * self.latent_width

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> OFormer:
        return OFormer(self, seed)


class OFormer(Model):
    """u(t) = head(z(t)) with z(t + 1) = z(t) + MLP(z(t), p) at each query p, z(0) = Attn(RFF(p); encoder(u(0)))."""

    def __init__(self, config: OFormerConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: OFormerConfig = config
        generator = torch.Generator().manual_seed(seed)
        self.encoder = Encoder(config, generator)
        self.decoder = Decoder(config, generator)

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
    ) -> Tensor:
        self._check(values, points, mask, node_type)
        wanted = [round(frame) for frame in frames(num_steps, None)]
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
        return self._frames(values, points, wanted, queries, mask, node_type)

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
        first = (values if mask is None else values.masked_fill(~mask[..., None], 0.0))[:, None]
        if not wanted:
            return first
        return torch.cat([first, self._frames(values, points, wanted, None, mask, node_type)], dim=1)

    def _frames(
        self,
        values: Tensor,
        points: Tensor,
        wanted: list[int],
        queries: Tensor | None,
        mask: Tensor | None,
        node_type: Tensor | None,
    ) -> Tensor:
        if mask is not None:
            values = values.masked_fill(~mask[..., None], 0.0)
        codes = node_type if node_type is None or node_type.ndim == 2 else node_type[None]
        here = Place(shown(points, mask), codes, mask)
        there = here if queries is None else Place(shown(queries, None), None, None)
        z = self.decoder.start(self.encoder(values, here), here, there)
        u = self.decoder.frames(z, there, wanted)
        return u if there.mask is None else u.masked_fill(~there.mask[:, None, :, None], 0.0)

    def _check(self, values: Tensor, points: Tensor, mask: Tensor | None, node_type: Tensor | None) -> None:
        config = self.config
        check_state(values, points, mask, config.dim, config.in_channels, self.checked_dtype())
        check_node_type(node_type, config.node_types, values, mask)
