"""FNO: the Fourier neural operator on grids, in any dimension, from one frame to the next (as PDEBench has it)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import NonNegativeInt, PositiveInt, model_validator
from torch import nn
from torch.nn.functional import gelu, pad

from calm_pde.models.contract import Abilities, Mesh, Reading
from calm_pde.models.fno.practice import PRACTICE
from calm_pde.models.fno.presets import PRESETS
from calm_pde.models.grid_recognition import GridGeometry, recognized_grid
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import BESIDE, Stepwise, StepwiseConfig
from calm_pde.nn.fourier_layer import FourierLayer
from calm_pde.nn.lift import Lift
from calm_pde.nn.pointwise import channels_first, linear
from calm_pde.nn.spectral_convolution import numbers_of_modes, smallest_shape
from calm_pde.types import Float, Tensor


class FnoConfig(StepwiseConfig):
    """All sizes and switches of an FNO.

    Args:
        modes: kept along each axis, in both directions.
        padding: cells of zeros behind the far end of every axis, or of each; 0 suits periodic fields.
        head_width: of the hidden layer after the last Fourier layer.
        paper_param_count: whether to hold the weights that the paper counts though no answer depends on them (in 3-D).
    """

    title: ClassVar[str] = "FNO"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    width: PositiveInt
    modes: PositiveInt
    layers: PositiveInt = 4
    padding: NonNegativeInt | tuple[NonNegativeInt, ...] = 0
    head_width: PositiveInt = 128
    paper_param_count: bool = False

    @property
    def far_padding(self) -> tuple[int, ...]:
        """One per axis."""
        return (self.padding,) * self.dim if isinstance(self.padding, int) else self.padding

    @model_validator(mode="after")
    def _parts_fit(self) -> FnoConfig:
        if len(self.far_padding) != self.dim:
            raise ValueError(f"padding needs one number, or {self.dim} of them, got {self.padding}")
        if self.node_types:
            raise ValueError(f"fno is not told the kind of a point; leave node_types out, got {self.node_types}")
        return self

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(irregular_points=False, free_queries=False, conditions=True)

    def latent_numbers(self, num_points: int) -> int:
        return numbers_of_modes(self.modes, self.dim, self.width)

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Fno:
        return Fno(self, seed)


class Fno(Stepwise):
    """u ↦ Q(L₄ ∘ σ ∘ L₃ ∘ σ ∘ L₂ ∘ σ ∘ L₁)(P(u ‖ x)), σ = GELU, on the grid padded at its far ends."""

    def __init__(self, config: FnoConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: FnoConfig = config
        generator = torch.Generator().manual_seed(seed)
        width = config.width
        self.lift = Lift(config.given_channels, config.dim, width, generator)
        self.layers = nn.ModuleList(FourierLayer(width, config.modes, config.dim, generator) for _ in range(config.layers))
        self.head = linear(width, config.head_width, generator)
        self.last = linear(config.head_width, config.out_channels, generator)
        if config.paper_param_count and config.dim == 3:  # the original makes batch norms in 3-D and never calls them
            self.unused = nn.Parameter(torch.zeros(config.layers * 2 * width))

    def reading(self) -> dict[str, Reading]:
        return {"lift.linear.weight": Reading(self.config.in_channels, BESIDE)}

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("lift", "last")

    def geometry(self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None) -> GridGeometry:
        config = self.config
        padded = smallest_shape(config.modes, config.dim)
        smallest = tuple(max(1, size - extra) for size, extra in zip(padded, config.far_padding, strict=True))
        grid, points = recognized_grid(points, mask, queries, smallest, "fno")
        return GridGeometry(grid, self.lift.beside(grid.by_cell(points)[None]))

    def step(
        self, states: Float[Tensor, "batch time point given"], geometry: GridGeometry
    ) -> Float[Tensor, "batch time point channel"]:
        grid, far = geometry.grid, self.config.far_padding
        h = self.lift(grid.by_cell(states), geometry.beside).flatten(0, 1).unflatten(2, grid.shape)
        h = pad(h, [side for extra in reversed(far) for side in (0, extra)])
        for depth, layer in enumerate(self.layers, start=1):
            h = layer(h) if depth == len(self.layers) else gelu(layer(h))
        h = h[(..., *(slice(size) for size in grid.shape))].flatten(2)
        u = channels_first(self.last, gelu(channels_first(self.head, h)))
        return grid.by_point(u.mT.unflatten(0, states.shape[:2]))
