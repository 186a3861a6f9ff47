"""Transolver: attention among slices of points that hold alike, on any points or on grids."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field, PositiveInt, model_validator

from calm_pde.geometry import periodic_axes
from calm_pde.models.contract import Abilities, Mesh
from calm_pde.models.grid_recognition import RecognizedGrid
from calm_pde.models.point_features import PointConfig, PointModel
from calm_pde.models.practice import Practice
from calm_pde.models.transolver.grid import Layout, grid_of
from calm_pde.models.transolver.practice import PRACTICE
from calm_pde.models.transolver.presets import PRESETS
from calm_pde.models.transolver.slices import Place, SliceAttention
from calm_pde.nn.linear_transformer.network import PointTransformer, PreNormBlock
from calm_pde.types import Bool, Float, Tensor


class TransolverConfig(PointConfig):
    """All sizes and switches of a Transolver; `preset` has the published ones, `build` makes the model.

    Args:
        slices: tokens that attend to one another, for each head.
        layout: what reads the features before they are sliced: a map of each `point` alone, or a convolution over a `grid`.
        shape: of a grid that its points do not tell, since it is bent: nodes along each axis, listed with the last one fastest.
            An answer then depends on that order. Empty where the points are a straight grid, which is recognized in any order.
    """

    title: ClassVar[str] = "Transolver"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    slices: PositiveInt = 64
    layout: Layout = "points"
    shape: tuple[Annotated[int, Field(ge=1)], ...] = ()

    @model_validator(mode="after")
    def _shape_fits(self) -> TransolverConfig:
        if self.shape and (self.layout != "grid" or len(self.shape) != self.dim):
            raise ValueError(f"shape: expected {self.dim} numbers of nodes with layout: grid, got {list(self.shape)}")
        return self

    @property
    def abilities(self) -> Abilities:
        on_points = self.layout == "points"  # in bfloat16 the coordinates of a grid fall together
        return super().abilities._replace(irregular_points=on_points, bfloat16_weights=on_points)

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Transolver:
        return Transolver(self, seed)


class Transolver(PointModel):
    """f = W LN(blocks(MLP(features) + c)) + b, each block x ← x + Slices(x), x ← x + MLP(LN(x))."""

    config: TransolverConfig

    def build_network(self, given: int, generator: torch.Generator) -> PointTransformer:
        config, width = self.config, self.config.width
        grid = periodic_axes(config.periodic, config.dim) if config.layout == "grid" else None
        blocks = [
            PreNormBlock(
                width, SliceAttention(width, config.heads, config.slices, grid, generator), config.expansion, generator
            )
            for _ in range(config.blocks)
        ]
        return PointTransformer(given, width, config.out_channels, blocks, generator, recomputed=config.task == "rollout")

    def place(
        self, points: Float[Tensor, "cloud point dim"], mask: Bool[Tensor, "batch point"] | None
    ) -> RecognizedGrid | None:
        config = self.config
        return grid_of(points, mask, config.shape, config.title) if config.layout == "grid" else None

    def answer(
        self, features: Float[Tensor, "row point in"], mask: Bool[Tensor, "row point"] | None, place: RecognizedGrid | None
    ) -> Float[Tensor, "row point out"]:
        if place is None:
            return self.network(features, Place(mask, None))
        return place.by_point(self.network(place.by_cell(features), Place(None, place.shape)))
