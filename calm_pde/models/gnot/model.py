"""GNOT: queries at positions read an input function by linear attention, with experts that share the domain among them."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import nn
from torch.utils.checkpoint import checkpoint

from calm_pde.errors import InputError
from calm_pde.models.contract import Abilities, Mesh, Reading
from calm_pde.models.gnot.block import Asked, GnotBlock
from calm_pde.models.gnot.practice import PRACTICE
from calm_pde.models.gnot.presets import PRESETS
from calm_pde.models.point_features import NodeTypes, PointConfig, joined, shown
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import STEP, Stepwise
from calm_pde.nn.pointwise import ResidualMLP
from calm_pde.types import Bool, Float, Tensor


class GnotConfig(PointConfig):
    """All sizes of a GNOT; `preset` has the published ones, `build` makes the model.

    Args:
        experts: MLPs that follow each attention, shared by place.
        layers: hidden layers of the MLPs that read positions and input function, and of the one that answers.
        expansion: how many times wider the experts and their gate are inside.
        coordinates: whether positions stand beside the values of the input function; queries are positions in any case.
    """

    title: ClassVar[str] = "GNOT"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    experts: PositiveInt = 3
    layers: NonNegativeInt = 3

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(free_queries=self.task == "steady", bfloat16_weights=True)

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Gnot:
        return Gnot(self, seed)


class GnotGeometry(NamedTuple):
    """What is known at the points beside the values, where answers are wanted, and whether at other places than the points."""

    known: Float[Tensor, "#batch 1 point channel"]
    positions: Float[Tensor, "cloud query dim"]
    mask: Bool[Tensor, "batch point"] | None
    elsewhere: bool


class Gnot(Stepwise):
    """MLP(blocks(x, z)) with x = MLP(p ‖ θ ‖ c(t) ‖ c(t + 1)) at the queries and z = MLP(u(t) ‖ φ ‖ p ‖ kind) at the points.

    In time that is added to u(t); of a steady problem u(t) are its features.
    """

    def __init__(self, config: GnotConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: GnotConfig = config
        generator = torch.Generator().manual_seed(seed)
        width, layers = config.width, config.layers
        self.node_types = NodeTypes(config.node_types, config.node_type_width, generator)
        given = config.in_channels + config.features + config.known_channels
        self.trunk = ResidualMLP(config.dim + config.told_channels, width, width, layers, generator)
        self.branch = ResidualMLP(given, width, width, layers, generator)
        inner = config.expansion * width
        self.blocks = nn.ModuleList(
            GnotBlock(config.dim, width, config.heads, inner, config.experts, generator) for _ in range(config.blocks)
        )
        self.head = ResidualMLP(width, width, config.out_channels, layers, generator)

    def reading(self) -> dict[str, Reading]:
        return {
            "branch.first.weight": Reading(self.config.in_channels, ("features",)),
            "trunk.first.weight": Reading(self.config.dim, STEP),
        }

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("trunk.first", "branch.first", "head.last")

    def geometry(self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None) -> GnotGeometry:
        if queries is not None and self.config.task == "rollout":
            raise InputError(
                "queries",
                expected="none, since this GNOT says how the state at its points changes",
                got=f"{queries.shape[-2]} of them",
                fix="Leave queries out and interpolate, or use a model that answers anywhere (calm, geo_fno).",
            )
        points = positions = shown(points, mask)
        known = self.node_types.beside(points if self.config.coordinates else points[..., :0], node_type)
        if queries is not None:
            queries = queries if queries.ndim == 3 else queries[None]
            clouds = max(len(points), len(queries))
            positions = torch.cat([part.expand(clouds, -1, -1) for part in (points, queries)], dim=1)
        return GnotGeometry(known[:, None], positions, mask, queries is not None)

    def step(
        self, states: Float[Tensor, "batch time point given"], geometry: GnotGeometry
    ) -> Float[Tensor, "batch time query channel"]:
        config, (batch, time, count, _) = self.config, states.shape
        values, told = states.split([config.in_channels + config.features, config.told_channels], dim=-1)
        z = self.branch(joined(values, geometry.known, geometry.mask)).flatten(0, 1)
        x = self.trunk(self._asked(geometry.positions, told)).expand(batch, time, -1, -1).flatten(0, 1)
        asked = self._seen(geometry, batch, time)
        for block in self.blocks:
            x = checkpoint(block, x, z, asked, use_reentrant=False) if config.task == "rollout" else block(x, z, asked)
        found = self.head(x[:, count:] if geometry.elsewhere else x).unflatten(0, (batch, time))
        return found if config.task == "steady" else states[..., : config.out_channels] + found

    def _asked(
        self, positions: Float[Tensor, "cloud query dim"], told: Float[Tensor, "batch time point told"]
    ) -> Float[Tensor, "_ _ query feature"]:
        """Positions with what all points of a sample are told alike."""
        if not told.shape[-1]:
            return positions[:, None]
        told, positions = told[:, :, :1].expand(-1, -1, positions.shape[1], -1), positions[:, None]
        return torch.cat([positions.expand(*told.shape[:3], -1), told], dim=-1)

    def _seen(self, geometry: GnotGeometry, batch: int, time: int) -> Asked:
        """Who sees whom: all queries the real points, of the input function and of their own."""
        positions, mask = geometry.positions, geometry.mask
        if len(positions) > 1:
            positions = positions.repeat_interleave(time, dim=0)
        if mask is not None:
            mask = mask.repeat_interleave(time, dim=0)
        met = mask
        if geometry.elsewhere:
            points = geometry.known.shape[2]
            met = torch.arange(positions.shape[1], device=positions.device).expand(batch * time, -1) < points
            met = met if mask is None else met & nn.functional.pad(mask, (0, positions.shape[1] - points))
        return Asked(positions, mask, met)
