"""AROMA's autoencoder: learned tokens read a field at any points, and any point reads the field back from them."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator
from torch import nn

from calm_pde.config import Config, Repeats
from calm_pde.metrics.relative_l2 import relative_l2_loss
from calm_pde.models.aroma.cross_attention import CrossAttention, ReadBlock
from calm_pde.models.aroma.sinusoids import octaves, place_features
from calm_pde.models.draws import Draws
from calm_pde.models.point_features import shown
from calm_pde.nn.pointwise import linear
from calm_pde.nn.transformer import TransformerBlock
from calm_pde.types import Bool, Float, Tensor


class AutoencoderConfig(Config):
    """Sizes, and what the first stage of training minimizes."""

    num_tokens: PositiveInt
    latent_channels: PositiveInt
    width: PositiveInt = 128
    heads: PositiveInt = 4
    depth: Repeats = 3
    """Self-attentions of the decoder, all with the same weights."""
    geometry: bool = False
    """Whether the tokens read where the points are before they read the field."""
    frequencies: Repeats = 12
    """Of sines and cosines, per axis and band."""
    highest_octave: float = 4.0
    """Keys: frequencies from π to π·2 to this."""
    bands: tuple[tuple[float, float], ...] = ((0.0, 3.0), (3.0, 4.0), (4.0, 5.0))
    """Queries: each band's lowest and highest octave."""
    band_width: PositiveInt = 16
    field_width: PositiveInt = 128
    field_depth: Repeats = 3
    """Hidden layers of the MLP from the bands' features to the field."""
    loss: Literal["relative_l2", "mean_square"] = "relative_l2"
    divergence_weight: NonNegativeFloat = 1e-5
    """Of the Kullback–Leibler divergence from N(0, 1)."""
    dropped: tuple[Annotated[float, Field(ge=0, lt=1)], ...] = ()
    """Shares of the input points that are left out, one of them drawn for each window; all points are decoded."""

    @model_validator(mode="after")
    def _parts_fit(self) -> AutoencoderConfig:
        if self.width % self.heads:
            raise ValueError(f"heads must divide the width {self.width}, got {self.heads}")
        return self


class Encoder(nn.Module):
    """Mean and log-variance (frame, token, latent) of fields on points."""

    def __init__(self, config: AutoencoderConfig, dim: int, channels: int, generator: torch.Generator | None) -> None:
        super().__init__()
        width, place = config.width, 2 * config.frequencies * dim
        self.frequencies = octaves(0.0, config.highest_octave, config.frequencies)
        self.tokens = nn.Parameter(torch.randn(config.num_tokens, width, generator=generator))
        self.lift = linear(channels, width, generator)
        self.read_geometry = ReadBlock(width, place, place, config.heads, generator) if config.geometry else None
        self.read_field = ReadBlock(width, place, width, config.heads, generator)
        self.to_mean = linear(width, config.latent_channels, generator)
        self.to_log_variance = linear(width, config.latent_channels, generator)

    def forward(
        self,
        values: Float[Tensor, "batch point in"],
        points: Float[Tensor, "*cloud point dim"],
        mask: Bool[Tensor, "batch point"] | None = None,
    ) -> tuple[Tensor, Tensor]:
        if mask is not None:
            values = values.masked_fill(~mask[..., None], 0.0)
        place, x = place_features(shown(points, mask), self.frequencies), self.tokens[None]
        if self.read_geometry is not None:
            x = self.read_geometry(x, place, place, mask)
        x = self.read_field(x, place, self.lift(values), mask)
        return self.to_mean(x), self.to_log_variance(x).clamp(-30.0, 20.0)


class Decoder(nn.Module):
    """Fields (frame, query, channel) of tokens (frame, token, latent)."""

    def __init__(self, config: AutoencoderConfig, dim: int, channels: int, generator: torch.Generator | None) -> None:
        super().__init__()
        width, place = config.width, 2 * config.frequencies * dim
        self.depth = config.depth
        self.bands = tuple(octaves(low, high, config.frequencies) for low, high in config.bands)
        self.lift = linear(config.latent_channels, width, generator)
        # one, gone through `depth` times
        self.block = TransformerBlock(width, config.heads, generator, expansion=4, bias=False)
        self.norm_query, self.norm_tokens = nn.LayerNorm(place), nn.LayerNorm(width)
        self.attention = CrossAttention((place, width, width), width, config.heads, generator, out=config.band_width)
        sizes = (len(self.bands) * config.band_width, *(config.field_width,) * config.field_depth, channels)
        self.field = nn.ModuleList(linear(before, after, generator) for before, after in pairwise(sizes))

    def forward(
        self, z: Float[Tensor, "batch token channel"], queries: Float[Tensor, "cloud query dim"]
    ) -> Float[Tensor, "batch query out"]:
        x = self.lift(z)
        for _ in range(self.depth):
            x = self.block(x)
        x = self.norm_tokens(x)
        place = torch.stack([place_features(queries, band) for band in self.bands], dim=2)
        read = self.attention(self.norm_query(place.flatten(1, 2)), x, x)  # all bands of a query stand side by side
        u = read.unflatten(1, place.shape[1:3]).flatten(2)
        *hidden, last = self.field
        for layer in hidden:
            u = torch.relu(layer(u))
        return last(u)


class Autoencoder(nn.Module):
    """Both, and what they are trained with."""

    def __init__(
        self, config: AutoencoderConfig, dim: int, channels: int, features: int, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, dim, channels + features, generator)
        self.decoder = Decoder(config, dim, channels, generator)

    def losses(
        self,
        values: Float[Tensor, "batch point in"],
        points: Float[Tensor, "*cloud point dim"],
        mask: Bool[Tensor, "batch point"] | None,
        draws: Draws,
        features: Float[Tensor, "batch point feature"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """Error of decode(μ + σε) plus w·½·mean(μ² + σ² − 1 − log σ²)."""
        read = values if features is None else torch.cat([values, features], dim=-1)
        mean, log_variance = self.encoder(read, points, self._kept(values, mask, draws))
        noise = draws.normal(*mean.shape[1:]).to(mean)
        found = self.decoder(mean + (0.5 * log_variance).exp() * noise, shown(points, mask)).to(values)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).mean(dim=(1, 2))
        return self._errors(found, values, mask) + self.config.divergence_weight * divergence

    def _errors(self, found: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        if self.config.loss == "relative_l2":
            return relative_l2_loss(found[:, None], values[:, None], mask)
        real = torch.ones_like(values[..., 0], dtype=torch.bool) if mask is None else mask
        squares = (found - values).square().mean(dim=-1).masked_fill(~real, 0.0)
        return squares.sum(dim=1) / real.sum(dim=1)

    def _kept(self, values: Tensor, mask: Tensor | None, draws: Draws) -> Tensor | None:
        """The points that are read: all real ones, but for the share that a window has drawn to leave out."""
        if not self.config.dropped:
            return mask
        shares = values.new_tensor(self.config.dropped)[draws.integers(len(self.config.dropped))]
        real = torch.ones_like(values[..., 0], dtype=torch.bool) if mask is None else mask
        order = draws.uniform(values.shape[1]).to(values).masked_fill(~real, 2.0).argsort(dim=1).argsort(dim=1)
        return order < ((1 - shares) * real.sum(dim=1)).ceil()[:, None]
