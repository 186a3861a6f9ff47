"""A U-Net on grids, in any dimension, from one frame to the next."""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar, NamedTuple

import torch
from pydantic import PositiveInt, model_validator
from torch import nn

from calm_pde.geometry import periodic_axes
from calm_pde.models.contract import Abilities, Mesh, Reading
from calm_pde.models.grid_recognition import RecognizedGrid, recognized_grid
from calm_pde.models.point_features import OneHot
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import BESIDE, Stepwise, StepwiseConfig
from calm_pde.models.unet.convolution import GROUPS, Block, Convolution, bordered, twice
from calm_pde.models.unet.practice import PRACTICE
from calm_pde.models.unet.presets import PRESETS
from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor

LEVELS = 4
_WHOLE = 2 ** (LEVELS - 1)
"""Cells along an axis that become one."""


class UNetConfig(StepwiseConfig):
    """The width of a U-Net, of the finest of its four levels; each coarser one is twice as wide."""

    title: ClassVar[str] = "U-Net"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    width: PositiveInt = 32

    @model_validator(mode="after")
    def _groups_fit(self) -> UNetConfig:
        if self.width % GROUPS:
            raise ValueError(f"width must be a multiple of the {GROUPS} groups of its norms, got {self.width}")
        return self

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(irregular_points=False, free_queries=False, conditions=True)

    def latent_numbers(self, num_points: int) -> int:
        """Of the coarsest level; finer ones reach the answer too."""
        return math.ceil(num_points / _WHOLE**self.dim) * self.width * _WHOLE

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> UNet:
        return UNet(self, seed)


class UNetGeometry(NamedTuple):
    """What a step needs of the mesh: its layout, and what kinds of cells there are, one-hot."""

    grid: RecognizedGrid
    kinds: Float[Tensor, "#batch 1 cell kind"]


class UNet(Stepwise):
    """u(t + 1) = u(t) + U(u(t)): two convolutions on each of four levels, down by convolutions at every second cell, up by
    cells taken twice and a convolution, beside what the level had on the way down."""

    def __init__(self, config: UNetConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: UNetConfig = config
        self.periodic, generator = periodic_axes(config.periodic, config.dim), torch.Generator().manual_seed(seed)
        widths = [config.width * 2**level for level in range(LEVELS)]
        pairs = list(itertools.pairwise(widths))
        known = (self.periodic, generator)
        self.node_types = OneHot(config.node_types)
        self.first = Block(config.given_channels + len(config.node_types), widths[0], *known)
        self.down = nn.ModuleList(Convolution(fine, fine, *known, stride=2) for fine, _ in pairs)
        self.inner = nn.ModuleList(Block(fine, coarse, *known) for fine, coarse in pairs)
        self.up = nn.ModuleList(Convolution(coarse, fine, *known) for fine, coarse in reversed(pairs))
        self.outer = nn.ModuleList(Block(2 * fine, fine, *known) for fine, _ in reversed(pairs))
        self.last = linear(widths[0], config.out_channels, generator)

    def reading(self) -> dict[str, Reading]:
        return {"first.first.weight": Reading(self.config.in_channels, BESIDE, repeats=3**self.config.dim)}

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("first.first", "last")

    def geometry(self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None) -> UNetGeometry:
        grid, points = recognized_grid(points, mask, queries, (1,) * self.config.dim, "unet")
        return UNetGeometry(grid, grid.by_cell(self.node_types(points, node_type)))

    def step(
        self, states: Float[Tensor, "batch time point given"], geometry: UNetGeometry
    ) -> Float[Tensor, "batch time point channel"]:
        (grid, kinds), batch, time = geometry, *states.shape[:2]
        given = torch.cat([grid.by_cell(states), kinds.to(states).expand(batch, time, -1, -1)], dim=-1)
        h = given.flatten(0, 1).mT.unflatten(2, grid.shape)
        h = bordered(h, 0, tuple(-(-size // _WHOLE) * _WHOLE for size in grid.shape), self.periodic)
        h = self._changes(h)[(..., *(slice(size) for size in grid.shape))]
        changes = self.last(h.flatten(2).mT).unflatten(0, (batch, time))
        return states[..., : self.config.out_channels] + grid.by_point(changes)

    def _changes(self, h: Float[Tensor, "row given *space"]) -> Float[Tensor, "row channel *space"]:
        levels = [self.first(h)]
        for down, inner in zip(self.down, self.inner, strict=True):
            levels.append(inner(down(levels[-1])))
        h = levels.pop()
        for up, outer in zip(self.up, self.outer, strict=True):
            h = outer(torch.cat([levels.pop(), up(twice(h))], dim=1))
        return h
