"""LNO: physics cross-attention into latent modes, a transformer over them, the same attention back; from frame to frame."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator
from torch import nn

from calm_pde.models.contract import Abilities, Mesh, Reading
from calm_pde.models.lno.physics_attention import Modes, PhysicsAttention, decoded, encoded
from calm_pde.models.lno.practice import PRACTICE
from calm_pde.models.lno.presets import PRESETS
from calm_pde.models.point_features import NodeTypes, joined, shown
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import BESIDE, Stepwise, StepwiseConfig
from calm_pde.nn.pointwise import ResidualMLP
from calm_pde.nn.transformer import TransformerBlock
from calm_pde.types import Float, Tensor


class LnoConfig(StepwiseConfig):
    """All sizes of an LNO; `preset` has the paper's, `build` makes the model.

    Args:
        task: `rollout` from frame to frame, or `steady`: features to one field.
        modes: latent tokens.
        projector_layers: hidden layers of each map on points.
        coordinates: whether the values are lifted with the coordinates beside them; a steady problem whose features are the
            coordinates needs them once. The attention sees them always.
        blocks: of the transformer over the modes, the paper's propagator layers.
        start: `published` is PyTorch's own, whose modes all see nearly the same, so that hundreds of steps pass before the loss
            falls; `spread` starts with modes that see different places.
        node_type_width: each code of `node_types` gets a learned embedding of this width beside the input features.
        memory_budget: bytes that the maps on points may hold at once, beside the logits (points × modes per mesh).
    """

    title: ClassVar[str] = "LNO"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE
    unwritten: ClassVar[tuple[str, ...]] = (*StepwiseConfig.unwritten, "task", "coordinates")

    task: Literal["rollout", "steady"] = "rollout"
    width: PositiveInt
    modes: PositiveInt = 128
    projector_layers: NonNegativeInt = 2
    coordinates: bool = True
    blocks: PositiveInt = 8
    heads: PositiveInt = 8
    start: Literal["published", "spread"] = "published"
    node_type_width: PositiveInt = 4
    memory_budget: Annotated[int, Field(ge=2**10)] = 256 * 2**20

    @model_validator(mode="after")
    def _heads_fit(self) -> LnoConfig:
        if self.width % self.heads:
            raise ValueError(f"heads must divide the width {self.width}, got {self.heads}")
        return self

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(bfloat16_weights=True, conditions=True)

    def latent_numbers(self, num_points: int) -> int:
        return self.modes * self.width

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Lno:
        return Lno(self, seed)


class LnoGeometry(NamedTuple):
    """What a step needs of the mesh: the logits, and what is known at each point."""

    modes: Modes
    known: Float[Tensor, "#batch 1 point channel"]
    mask: Tensor | None


class Lno(Stepwise):
    """u(t + 1) = MLP(softmax_modes(S) · blocks(softmax_points(S)ᵀ · MLP(u(t) ‖ p ‖ kind))), S = MLP(MLP(p))."""

    def __init__(self, config: LnoConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: LnoConfig = config
        generator = torch.Generator().manual_seed(seed)
        width, layers = config.width, config.projector_layers
        self.node_types = NodeTypes(config.node_types, config.node_type_width, generator)
        features = config.given_channels + config.dim * config.coordinates + self.node_types.width
        self.attention = PhysicsAttention(config.dim, width, config.modes, layers, generator)
        self.branch = ResidualMLP(features, width, width, layers, generator)
        self.blocks = nn.Sequential(*(TransformerBlock(width, config.heads, generator) for _ in range(config.blocks)))
        self.head = ResidualMLP(width, width, config.out_channels, layers, generator)
        if config.start == "spread":
            self.attention.spread(generator)

    def reading(self) -> dict[str, Reading]:
        return {"branch.first.weight": Reading(self.config.in_channels, BESIDE)}

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("attention.trunk.first", "branch.first", "head.last")

    def geometry(self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None) -> LnoGeometry:
        points = shown(points, mask)
        modes = self.attention(points, queries, mask, self.config.memory_budget)
        beside = points if self.config.coordinates else points[..., :0]
        return LnoGeometry(modes, self.node_types.beside(beside, node_type)[:, None], mask)

    def step(
        self, states: Float[Tensor, "batch time point given"], geometry: LnoGeometry
    ) -> Float[Tensor, "batch time query channel"]:
        features = joined(states, geometry.known, geometry.mask)
        budget = self.config.memory_budget
        z = encoded(self.branch, features, geometry.modes, budget)
        z = self.blocks(z.flatten(0, 1)).unflatten(0, states.shape[:2])
        return decoded(self.head, z, geometry.modes, budget)
