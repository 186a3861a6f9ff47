"""Models that carry scattered points to the Fourier modes of a latent grid through a learned deformation, and back."""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import nn
from torch.nn.functional import gelu

from calm_pde.engine.precision import full_precision
from calm_pde.models.contract import Abilities, Reading
from calm_pde.models.point_features import NodeTypes, shown
from calm_pde.models.stepwise import BESIDE, Stepwise, StepwiseConfig
from calm_pde.nn.deformation import Deformation
from calm_pde.nn.lift import Lift
from calm_pde.nn.nudft import NonuniformTransform, Symmetry, conjugate_waves, waves
from calm_pde.nn.pointwise import channels_first, linear
from calm_pde.nn.spectral_convolution import ModeMixing, kept_modes, numbers_of_modes, smallest_shape
from calm_pde.types import Bool, Complex, Float, Tensor

_CODE_WIDTH = 42  # of the geometry code that the published deformation can take beside the points, and that nobody gives


class LatentGridConfig(StepwiseConfig):
    """What all models with a latent grid can choose.

    Args:
        task: `rollout` from frame to frame, or `steady`: features to one field.
        modes: kept along each axis, in both directions.
        layers: spectral layers; the first leads from the points to the latent grid, the last one back.
        latent_size: points of the latent grid along each axis.
        head_width: of the hidden layer after the last spectral layer.
        deformation_width, deformation_center: see `Deformation`.
        symmetry: how the last layer completes the half spectrum of a real field. `fixed` is the exact counterpart of the
            real inverse FFT. `legacy` is what the published code did until 2026, and so the paper: it pairs row k₁ with
            −k₁ − 1 instead of −k₁, and does not invert the forward transform. Both have the same weights.
        node_type_width: each code of `node_types` gets a learned vector of this width beside the coordinates.
        paper_param_count: whether to hold the weights that the paper counts though no answer depends on them.
    """

    unwritten: ClassVar[tuple[str, ...]] = (*StepwiseConfig.unwritten, "task")

    task: Literal["rollout", "steady"] = "rollout"
    width: PositiveInt
    modes: PositiveInt
    layers: Annotated[int, Field(ge=2)] = 5
    latent_size: PositiveInt = 40
    head_width: PositiveInt = 128
    deformation_width: PositiveInt = 32
    deformation_center: float | tuple[float, ...] = 1e-4
    symmetry: Symmetry = "fixed"
    node_type_width: PositiveInt = 4
    paper_param_count: bool = False

    @property
    def center(self) -> tuple[float, ...]:
        """One coordinate per axis."""
        one = self.deformation_center
        return one if isinstance(one, tuple) else (float(one),) * self.dim

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(conditions=True)

    @property
    def has_latent_grid(self) -> bool:
        return True

    def latent_numbers(self, num_points: int) -> int:
        return numbers_of_modes(self.modes, self.dim, self.width)

    @model_validator(mode="after")
    def _latent_grid_fits(self) -> LatentGridConfig:
        if not self.has_latent_grid:
            return self
        if len(self.center) != self.dim:
            raise ValueError(f"deformation_center needs one number, or {self.dim} of them, got {self.deformation_center}")
        smallest = max(smallest_shape(self.modes, self.dim))
        if self.latent_size < smallest:
            raise ValueError(f"latent_size must be at least {smallest} for {self.modes} modes, got {self.latent_size}")
        return self


class LatentGridGeometry(NamedTuple):
    """What a mesh alone decides: the lift's constant part, both transforms, and what the queries' places add to the answer."""

    hidden: Bool[Tensor, "batch point"] | None
    beside: Float[Tensor, "_ channel point"]
    analysis: NonuniformTransform
    synthesis: NonuniformTransform
    at_queries: Float[Tensor, "cloud channel query"]
    on_grid: tuple[Float[Tensor, "channel *space"], ...]


class LatentGridModel(Stepwise):
    """u ↦ Q(Σ_k V[k]·exp(2πi k·ξ) + b(x)) at ξ = φ(x), V the mixed modes of features on the latent grid, which a model
    makes from the modes Σ_n P(u ‖ x)_n·exp(−2πi k·ξ_n) of the lifted state.

    Both sums are plain: neither is divided by the number of points or cells, as published.
    """

    def __init__(self, config: LatentGridConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config: LatentGridConfig = config
        width, dim = config.width, config.dim
        self.shape = (config.latent_size,) * dim
        self.node_types = NodeTypes(config.node_types, config.node_type_width, generator)
        self.deformation = Deformation(dim, config.deformation_width, config.center, generator)
        self.lift = Lift(config.given_channels, dim + self.node_types.width, width, generator)
        self.synthesis = ModeMixing(width, width, config.modes, dim, generator)
        self.place = linear(dim, width, generator)
        self.head = linear(width, config.head_width, generator)
        self.last = linear(config.head_width, config.out_channels, generator)
        if config.paper_param_count:
            code = (_CODE_WIDTH + 1) * config.deformation_width
            self.unused = nn.Parameter(torch.zeros(code + self.never_used()))

    def reading(self) -> dict[str, Reading]:
        return {"lift.linear.weight": Reading(self.config.in_channels, BESIDE)}

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("lift", "last", "deformation.first", "deformation.last")

    def never_used(self) -> int:
        """Weights of the original beside the geometry code's that no answer depends on."""
        return 0

    @abstractmethod
    def places_on_grid(self) -> tuple[Float[Tensor, "channel *space"], ...]:
        """What the coordinates of the latent grid add to the features, for each layer that wants it."""

    @abstractmethod
    def on_grid(
        self,
        spectrum: Complex[Tensor, "row channel *mode"],
        places: tuple[Float[Tensor, "channel *space"], ...],
    ) -> Float[Tensor, "row channel *space"]:
        """Features on the latent grid from the modes of the lifted state: all layers but the last."""

    def geometry(
        self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None
    ) -> LatentGridGeometry:
        config = self.config
        where = shown(points, mask)
        asked = where if queries is None else shown(queries, None)
        beside = self.lift.beside(self.node_types.beside(where, node_type))
        hidden = None if mask is None else ~mask
        if hidden is not None:  # with values of zero there, a masked point is zero in every sum
            beside = beside.masked_fill(hidden[:, None], 0.0)
        with full_precision(where):
            deformed = self.deformation(where)
            there = deformed if queries is None else self.deformation(asked)
            analysis = NonuniformTransform(waves(deformed, config.modes))
            synthesis = NonuniformTransform(conjugate_waves(there, config.modes, config.symmetry))
        at_queries = self.place(asked).mT
        return LatentGridGeometry(hidden, beside, analysis, synthesis, at_queries, self.places_on_grid())

    def step(
        self, states: Float[Tensor, "batch time point given"], geometry: LatentGridGeometry
    ) -> Float[Tensor, "batch time query channel"]:
        if geometry.hidden is not None:
            states = states.masked_fill(geometry.hidden[:, None, :, None], 0.0)
        lead, width = states.shape[:2], self.config.width
        h = self.lift(states, geometry.beside)
        with full_precision(h):
            spectrum = geometry.analysis.modes_of(by_cloud(h.to(self.synthesis.weight.dtype), geometry.analysis))
        h = self.on_grid(spectrum.flatten(0, 1).unflatten(0, (-1, width)), geometry.on_grid)
        with full_precision(h):
            spectrum = self.synthesis(kept_modes(h.to(self.synthesis.weight.dtype), self.config.modes))
            h = geometry.synthesis.values_of(by_cloud(spectrum.unflatten(0, lead), geometry.synthesis))
        h = h.reshape(*lead, width, -1) + geometry.at_queries[:, None]
        u = channels_first(self.last, gelu(channels_first(self.head, h.flatten(0, 1))))
        return u.mT.unflatten(0, lead)

    def place_on_grid(self, layer: nn.Linear) -> Float[Tensor, "channel *space"]:
        """A linear map of the latent grid's coordinates, 0 … 1 with both ends."""
        weight = layer.weight
        axes = [torch.linspace(0, 1, size, dtype=weight.dtype, device=weight.device) for size in self.shape]
        return channels_first(layer, torch.stack(torch.meshgrid(*axes, indexing="ij"))[None])[0]


def by_cloud(features: Tensor, transform: NonuniformTransform) -> Tensor:
    """(batch, time, channel, …) as (cloud, row, …): the rows that share one mesh stand together."""
    clouds = len(transform.factors[0])
    return features.flatten(0, 2).unflatten(0, (clouds, -1))
