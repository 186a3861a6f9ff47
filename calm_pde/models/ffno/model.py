"""F-FNO: Fourier layers factorized over the axes, on a grid or on scattered points, from one frame to the next."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from pydantic import NonNegativeInt, PositiveInt, model_validator
from torch import nn
from torch.nn.functional import pad

from calm_pde.engine.precision import full_precision
from calm_pde.models.contract import Abilities, Mesh, Reading
from calm_pde.models.ffno.factorized_convolution import FactorizedBlock
from calm_pde.models.ffno.practice import PRACTICE
from calm_pde.models.ffno.presets import PRESETS
from calm_pde.models.grid_recognition import GridGeometry, recognized_grid
from calm_pde.models.latent_grid import LatentGridConfig, LatentGridModel
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import BESIDE, Stepwise
from calm_pde.nn.lift import Lift
from calm_pde.nn.pointwise import linear
from calm_pde.nn.spectral_convolution import field_of_modes
from calm_pde.types import Complex, Float, Tensor


class FfnoConfig(LatentGridConfig):
    """All sizes and switches of an F-FNO.

    Args:
        form: on a full `grid`, or on any `points` by way of a latent grid.
        layers: blocks of the grid form; the point form has two fewer, between the way to the latent grid and back.
        padding: cells of zeros behind the far end of every axis; the grid form only. 0 suits periodic fields.
        expansion, weight_norm: of the blocks' pointwise maps, see `FactorizedBlock`.
    """

    title: ClassVar[str] = "F-FNO"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    form: Literal["grid", "points"] = "grid"
    layers: PositiveInt = 4
    padding: NonNegativeInt = 0
    expansion: PositiveInt = 4
    weight_norm: bool = False

    @property
    def has_latent_grid(self) -> bool:
        return self.form == "points"

    @model_validator(mode="after")
    def _form_fits(self) -> FfnoConfig:
        if self.form == "grid" and self.node_types:
            raise ValueError(f"the grid form is not told the kind of a point; leave node_types out, got {self.node_types}")
        if self.form == "points" and self.padding:
            raise ValueError(f"the point form does not pad; leave padding out, got {self.padding}")
        if self.form == "points" and self.layers < 3:
            raise ValueError(f"the point form needs at least 3 layers, got {self.layers}")
        return self

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(irregular_points=self.form == "points", free_queries=self.form == "points")

    def latent_numbers(self, num_points: int) -> int:
        """On a grid its points, since each of its layers keeps modes along one axis alone."""
        return num_points * self.width if self.form == "grid" else super().latent_numbers(num_points)

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> FfnoOnGrid | FfnoOnPoints:
        return FfnoOnGrid(self, seed) if self.form == "grid" else FfnoOnPoints(self, seed)

    def block(self, generator: torch.Generator) -> FactorizedBlock:
        return FactorizedBlock(self.width, self.modes, self.dim, self.expansion, self.weight_norm, generator)


class FfnoOnGrid(Stepwise):
    """h ← h + b_l(h) for every block; the answer is an affine map of the last block's b alone, as published."""

    def __init__(self, config: FfnoConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: FfnoConfig = config
        generator = torch.Generator().manual_seed(seed)
        self.lift = Lift(config.given_channels, config.dim, config.width, generator)
        self.blocks = nn.ModuleList(config.block(generator) for _ in range(config.layers))
        self.head = linear(config.width, config.head_width, generator)
        self.last = linear(config.head_width, config.out_channels, generator)

    def reading(self) -> dict[str, Reading]:
        return {"lift.linear.weight": Reading(self.config.in_channels, BESIDE)}

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("lift", "last")

    def geometry(self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None) -> GridGeometry:
        smallest = max(1, 2 * self.config.modes - 2 - self.config.padding)
        grid, points = recognized_grid(points, mask, queries, (smallest,) * self.config.dim, "ffno with form: grid")
        return GridGeometry(grid, self.lift.beside(grid.by_cell(points)[None]))

    def step(
        self, states: Float[Tensor, "batch time point given"], geometry: GridGeometry
    ) -> Float[Tensor, "batch time point channel"]:
        grid = geometry.grid
        h = self.lift(grid.by_cell(states), geometry.beside).flatten(0, 1).unflatten(2, grid.shape)
        h = pad(h, [0, self.config.padding] * self.config.dim)
        change = h
        for depth, block in enumerate(self.blocks):
            h = h + change if depth else h
            change = block(h)
        change = change[(..., *(slice(size) for size in grid.shape))].flatten(2)
        u = self.answer(change)
        return grid.by_point(u.mT.unflatten(0, states.shape[:2]))

    def answer(self, change: Float[Tensor, "row channel point"]) -> Float[Tensor, "row out point"]:
        """Two linear maps with nothing between them, as one: W₂ W₁ b + (W₂ c₁ + c₂)."""
        weight = self.last.weight @ self.head.weight
        bias = self.last.weight @ self.head.bias + self.last.bias
        return torch.baddbmm(bias[:, None], weight.expand(len(change), -1, -1), change)


class FfnoOnPoints(LatentGridModel):
    """h₀ = 𝓕⁻¹(ĥ) + b(g), h ← h + b_l(h) + b(g) on the latent grid g, with one b for all layers."""

    config: FfnoConfig

    def __init__(self, config: FfnoConfig, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        super().__init__(config, generator)
        self.blocks = nn.ModuleList(config.block(generator) for _ in range(config.layers - 2))
        self.grid_place = linear(config.dim, config.width, generator)

    def never_used(self) -> int:
        """The original makes a map of every point alone for each block, and never calls it."""
        return (self.config.layers - 2) * self.config.width * (self.config.width + 1)

    def places_on_grid(self) -> tuple[Float[Tensor, "channel *space"], ...]:
        return (self.place_on_grid(self.grid_place),)

    def on_grid(
        self,
        spectrum: Complex[Tensor, "row channel *mode"],
        places: tuple[Float[Tensor, "channel *space"], ...],
    ) -> Float[Tensor, "row channel *space"]:
        with full_precision(places[0]):
            h = field_of_modes(spectrum, self.shape)
        h = h + places[0]
        for block in self.blocks:
            h = h + block(h) + places[0]
        return h
