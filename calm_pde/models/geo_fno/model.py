"""Geo-FNO: an FNO on a latent grid that scattered points reach through a learned deformation."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn
from torch.nn.functional import gelu

from calm_pde.engine.precision import full_precision
from calm_pde.models.contract import Mesh
from calm_pde.models.geo_fno.practice import PRACTICE
from calm_pde.models.geo_fno.presets import PRESETS
from calm_pde.models.latent_grid import LatentGridConfig, LatentGridModel
from calm_pde.models.practice import Practice
from calm_pde.nn.fourier_layer import FourierLayer
from calm_pde.nn.pointwise import linear
from calm_pde.nn.spectral_convolution import ModeMixing, field_of_modes
from calm_pde.types import Complex, Float, Tensor


class GeoFnoConfig(LatentGridConfig):
    """All sizes and switches of a Geo-FNO."""

    title: ClassVar[str] = "Geo-FNO"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> GeoFno:
        return GeoFno(self, seed)


class GeoFno(LatentGridModel):
    """h₀ = σ(𝓕⁻¹(R₀ ĥ) + b₀(g)), hᵢ = σ(K_i(h) + W_i h + b_i(g)) on the latent grid g, σ = GELU."""

    config: GeoFnoConfig

    def __init__(self, config: GeoFnoConfig, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        super().__init__(config, generator)
        width, modes, dim, inner = config.width, config.modes, config.dim, config.layers - 2
        self.analysis = ModeMixing(width, width, modes, dim, generator)
        self.layers = nn.ModuleList(FourierLayer(width, modes, dim, generator) for _ in range(inner))
        self.places = nn.ModuleList(linear(dim, width, generator) for _ in range(inner + 1))

    def places_on_grid(self) -> tuple[Float[Tensor, "channel *space"], ...]:
        return tuple(self.place_on_grid(layer) for layer in self.places)  # pyright: ignore[reportArgumentType]

    def on_grid(
        self,
        spectrum: Complex[Tensor, "row channel *mode"],
        places: tuple[Float[Tensor, "channel *space"], ...],
    ) -> Float[Tensor, "row channel *space"]:
        with full_precision(places[0]):
            h = field_of_modes(self.analysis(spectrum), self.shape)
        h = gelu(h + places[0])
        for layer, place in zip(self.layers, places[1:], strict=True):
            h = gelu(layer(h) + place)
        return h
