"""PIT: position attention onto a latent mesh, blocks there, position attention back; from frame to frame."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import nn
from torch.nn.functional import gelu

from calm_pde.engine.precision import full_precision
from calm_pde.errors import InputError
from calm_pde.geometry import periodic_axes
from calm_pde.models.contract import Abilities, Mesh, Reading
from calm_pde.models.doors import mesh_union
from calm_pde.models.pit.position_attention import Near, PositionAttention, attended, near
from calm_pde.models.pit.practice import PRACTICE
from calm_pde.models.pit.presets import PRESETS
from calm_pde.models.point_features import NodeTypes, shown
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import BESIDE, Stepwise, StepwiseConfig
from calm_pde.nn.pointwise import linear
from calm_pde.nn.query_points import query_start
from calm_pde.types import Float, Tensor

Quantile = Annotated[float, Field(gt=0, le=1)]


class PitConfig(StepwiseConfig):
    """All sizes and switches of a PIT; `preset` has the paper's, `build` makes the model.

    Args:
        latent_mesh: points per axis of a uniform grid (without its end on periodic axes); with `mesh_prior`, the number of
            points of a random sample of the training mesh.
        encoder_quantile, decoder_quantile: the share of real points, or of latent ones, that a query attends to.
        coordinates: whether they are among the input features.
        normalize_latent: whether each latent channel is normalized over the latent mesh, before and after the blocks.
        residual: whether the change of a frame is predicted instead of the next frame.
        node_type_width: each code of `node_types` gets a learned embedding of this width beside the input features.
    """

    title: ClassVar[str] = "PIT"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    width: PositiveInt
    heads: PositiveInt
    blocks: PositiveInt = 4
    latent_mesh: tuple[PositiveInt, ...]
    mesh_prior: bool = False
    encoder_quantile: Quantile
    decoder_quantile: Quantile
    coordinates: bool = True
    normalize_latent: bool = False
    residual: bool = False
    node_type_width: PositiveInt = 4

    @model_validator(mode="after")
    def _parts_fit(self) -> PitConfig:
        wanted = 1 if self.mesh_prior else self.dim
        if len(self.latent_mesh) != wanted:
            raise ValueError(
                f"latent_mesh needs {wanted} entries (one per axis; with mesh_prior one in all), got {self.latent_mesh}"
            )
        return self

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(free_queries=not self.residual, conditions=True)

    def latent_numbers(self, num_points: int) -> int:
        return math.prod(self.latent_mesh) * self.width

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Pit:
        return Pit(self, mesh=mesh, seed=seed)


class PitGeometry(NamedTuple):
    """What a step needs of the mesh: which keys are near, the weights there, and what is known at each point."""

    into: Near
    into_weights: Tensor
    within: Near
    within_weights: list[Tensor]
    back: Near
    back_weights: Tensor
    known: Float[Tensor, "#batch 1 point channel"]
    mask: Tensor | None


class Pit(Stepwise):
    """u(t + 1) = MLP(A_back · x), x ← GELU(MLP(x ‖ A x)) per block, x = GELU(MLP(A_into (u(t) ‖ p ‖ kind)))."""

    undecayed = ("locality",)

    latent: Tensor

    def __init__(self, config: PitConfig, mesh: Mesh | None = None, seed: int = 0) -> None:
        super().__init__()
        self.config: PitConfig = config
        self.periodic = periodic_axes(config.periodic, config.dim)
        generator = torch.Generator().manual_seed(seed)
        prior = None if mesh is None or not config.mesh_prior else mesh_union(mesh, config.dim)
        self.register_buffer(
            "latent",
            query_start(config.latent_mesh[0], config.dim, prior, generator)
            if config.mesh_prior
            else uniform_grid(config.latent_mesh, self.periodic),
        )
        width, heads = config.width, config.heads
        self.node_types = NodeTypes(config.node_types, config.node_type_width, generator)
        features = config.given_channels + config.dim * config.coordinates + self.node_types.width
        self.into = PositionAttention(heads, generator)
        self.lift = perceptron(heads * features, width, width, generator)
        self.within = nn.ModuleList(PositionAttention(heads, generator) for _ in range(config.blocks))
        self.blocks = nn.ModuleList(perceptron((1 + heads) * width, width, width, generator) for _ in range(config.blocks))
        self.back = PositionAttention(heads, generator)
        self._gathers = False
        self.project = perceptron(heads * width, width, config.out_channels, generator)

    def differentiate(self) -> None:
        self._gathers = True

    def reading(self) -> dict[str, Reading]:
        return {"lift.0.weight": Reading(self.config.in_channels, BESIDE, repeats=self.config.heads)}

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("lift.0", "project.2")

    def geometry(self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None) -> PitGeometry:
        config = self.config
        if queries is not None and config.residual:
            raise InputError(
                "queries",
                expected="none, since this model predicts the change at the points it is given",
                got=f"{queries.shape[-2]} of them",
                fix="Ask at the points, or use residual: false or a model that answers anywhere (calm).",
            )
        points = shown(points, mask)
        into = near(points, self.latent, config.encoder_quantile, self.periodic, mask)
        within = near(self.latent, self.latent, 1.0, self.periodic)
        back = near(self.latent, points if queries is None else queries, config.decoder_quantile, self.periodic)
        into, back = (where._replace(gathered=self._gathers) for where in (into, back))
        known = self.node_types.beside(points if config.coordinates else points[..., :0], node_type)
        return PitGeometry(
            into,
            self.into(into),
            within,
            [attention(within) for attention in self.within],
            back,
            self.back(back),
            known[:, None],
            mask,
        )

    def step(
        self, states: Float[Tensor, "batch time point given"], geometry: PitGeometry
    ) -> Float[Tensor, "batch time query channel"]:
        states = states.to(self.latent.dtype)  # under autocast an answer that comes back is narrow, coordinates are not
        if geometry.mask is not None:
            states = states.masked_fill(~geometry.mask[:, None, :, None], 0.0)
        features = torch.cat([states, geometry.known.expand(*states.shape[:3], -1)], dim=-1)
        x = attended(features, geometry.into, geometry.into_weights)
        with full_precision(states) if self.config.normalize_latent else nullcontext():  # norms leave small differences
            x = self._latent(x, geometry)
        change = self.project(attended(x, geometry.back, geometry.back_weights))
        return states[..., : change.shape[-1]] + change if self.config.residual else change

    def _latent(self, x: Float[Tensor, "batch time token in"], geometry: PitGeometry) -> Tensor:
        x = self._normalized(gelu(self.lift(x)))
        for block, weights in zip(self.blocks, geometry.within_weights, strict=True):
            x = gelu(block(torch.cat([x, attended(x, geometry.within, weights).to(x.dtype)], dim=-1)))
        return self._normalized(x)

    def _normalized(self, x: Float[Tensor, "batch time token channel"]) -> Float[Tensor, "batch time token channel"]:
        if not self.config.normalize_latent:
            return x
        variance, mean = torch.var_mean(x, dim=2, keepdim=True, correction=0)
        return (x - mean) * (variance + 1e-5).rsqrt()


def uniform_grid(counts: tuple[int, ...], periodic: tuple[bool, ...]) -> Float[Tensor, "token dim"]:
    """The grid over the unit box, without its end on periodic axes."""
    axes = [
        torch.arange(count, dtype=torch.get_default_dtype()) / max(count if wraps else count - 1, 1)
        for count, wraps in zip(counts, periodic, strict=True)
    ]
    return torch.cartesian_prod(*axes).view(math.prod(counts), len(counts))


def perceptron(in_features: int, hidden: int, out_features: int, generator: torch.Generator) -> nn.Sequential:
    """Linear, GELU, Linear, with weights ~ N(0, 2/in)."""
    first, second = linear(in_features, hidden, generator), linear(hidden, out_features, generator)
    for layer in (first, second):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
    return nn.Sequential(first, nn.GELU(), second)
