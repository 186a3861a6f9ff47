"""The parts of OFormer: the encoder of a state, the latent state at the queries, its propagator and the head.

Three layouts stand behind the published models: `bare` has no norms, `grid` has norms and wide latent states, `mesh` adds
node types, a skip around the encoder and a mixing layer among the answers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from calm_pde.models.oformer.linear_attention import GatedMLP, LinearAttention, near_identity, rotation
from calm_pde.models.point_features import NodeTypes
from calm_pde.nn.fourier import RandomFourierFeatures
from calm_pde.nn.pointwise import linear
from calm_pde.types import Bool, Float, Int, Tensor

if TYPE_CHECKING:
    from calm_pde.models.oformer.model import OFormerConfig


class Place(NamedTuple):
    """Points that tokens stand on, with something harmless where they are masked."""

    points: Float[Tensor, "#batch point dim"]
    node_type: Int[Tensor, "#batch point"] | None
    mask: Bool[Tensor, "batch point"] | None


def chain(widths: list[int], activation: type[nn.Module], generator: torch.Generator, last_bias: bool = False) -> nn.Sequential:
    """Linear maps with activations between them; no biases but, if asked, the last."""
    layers: list[nn.Module] = []
    for depth, (wide, narrow) in enumerate(pairwise(widths), start=2):
        layers += [linear(wide, narrow, generator, bias=last_bias and depth == len(widths)), activation()]
    return nn.Sequential(*layers[:-1])


def beside(x: Float[Tensor, "batch point in"], *known: Tensor | None) -> Float[Tensor, "batch point out"]:
    """x and what is known at its points, channel after channel."""
    return torch.cat([x, *(part.expand(len(x), -1, -1) for part in known if part is not None)], dim=-1)


class EncoderBlock(nn.Module):
    """x ← LN(x), x ← x + Attn(x), x ← LN(x), x ← x + MLP(x): the norms stand on the stream itself, or are left out."""

    def __init__(self, config: OFormerConfig, generator: torch.Generator) -> None:
        super().__init__()
        width, normed = config.encoder_width, config.layout != "bare"
        self.norm_attention = nn.LayerNorm(width) if normed else nn.Identity()
        self.attention = LinearAttention(width, 1, config.attention, config.norm, generator)
        self.norm_mlp = nn.LayerNorm(width) if normed else nn.Identity()
        self.mlp = GatedMLP(width, generator)

    def forward(
        self, x: Float[Tensor, "batch point channel"], place: Place, frequency: float
    ) -> Float[Tensor, "batch point channel"]:
        x = self.norm_attention(x)
        x = x + self.attention(x, rotation(place.points, x.shape[-1], frequency), mask=place.mask)
        x = self.norm_mlp(x)
        return x + self.mlp(x)


class Encoder(nn.Module):
    """(u ‖ p), lifted, through blocks of linear attention."""

    def __init__(self, config: OFormerConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        width, features = config.encoder_width, config.given_channels + config.dim
        self.node_types = NodeTypes(config.node_types, width, generator)
        self.join = self.norm = None
        if config.layout == "mesh":
            self.lift = chain([features, width, width], nn.GELU, generator)
            self.join = linear(width + config.node_type_width, width, generator, bias=False)
            self.norm = nn.LayerNorm(width)
            self.out = chain([width, width, config.latent_width], nn.ReLU, generator)
        else:
            self.lift = chain([features, width - (config.dim if config.layout == "bare" else 0)], nn.GELU, generator)
            self.out = chain([width, config.latent_width], nn.GELU, generator)
        self.blocks = nn.ModuleList(EncoderBlock(config, generator) for _ in config.rotary_scales)

    def forward(self, values: Float[Tensor, "batch point channel"], place: Place) -> Float[Tensor, "batch point latent"]:
        config = self.config
        x = self.lift(beside(values, place.points))
        if config.layout == "bare":
            x = beside(x, place.points)
        if self.join is not None:
            x = self.join(beside(x, _node_vectors(self.node_types, place)))
        skip = x
        for block, scale in zip(self.blocks, config.rotary_scales, strict=True):
            x = checkpoint(block, x, place, config.frequency(scale), use_reentrant=False)
        return self.out(x if self.norm is None else self.norm(x + skip))


class Propagator(nn.Module):
    """z ← z + MLP(LN(z) ‖ kind ‖ p), the latent state one frame later; bare, z ← z + MLP(z), near identity at first.

    Behind all these stand the conditions of the step, where there are some.
    """

    def __init__(self, config: OFormerConfig, generator: torch.Generator) -> None:
        super().__init__()
        width, bare = config.propagator_width, config.layout == "bare"
        self.norm = nn.Identity() if bare else nn.LayerNorm(width)
        features = (width if bare else width + config.node_type_width + config.dim) + config.told_channels
        self.mlp = chain([features] + [width] * (4 if config.layout == "mesh" else 3), nn.GELU, generator)
        for layer in self.mlp if bare else ():
            if isinstance(layer, nn.Linear):
                near_identity(layer, generator)

    def forward(
        self, z: Float[Tensor, "batch query channel"], known: list[Tensor | None]
    ) -> Float[Tensor, "batch query channel"]:
        return z + self.mlp(beside(self.norm(z), *known))


class Decoder(nn.Module):
    """Fourier features of the queries attend to the encoded state and become the latent state there, which then moves."""

    def __init__(self, config: OFormerConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        layout, latent, wide = config.layout, config.latent_width, config.propagator_width
        features = {"bare": 2 * latent, "grid": wide, "mesh": latent}[layout]
        self.node_types = NodeTypes(config.node_types, config.encoder_width, generator)
        self.fourier = RandomFourierFeatures(config.dim, features, config.fourier_std, generator)
        self.join = self.mixing = None
        if layout == "bare":
            self.embed = nn.Sequential(nn.GELU(), linear(features, latent, generator, bias=False))
        else:
            self.embed = chain([features, features, latent], nn.GELU, generator)
        self.dropout = nn.Dropout(config.dropout)
        self.attention = LinearAttention(latent, config.heads, config.attention, config.norm, generator)
        self.mlp = GatedMLP(latent, generator)
        if layout == "mesh":
            self.join = linear(latent + config.node_type_width, latent, generator, bias=False)
            self.mixing = LinearAttention(
                latent, 1, config.attention, "token" if config.norm == "affine" else config.norm, generator
            )
        self.widen = nn.Identity() if layout == "bare" else linear(latent, wide, generator, bias=layout == "grid")
        self.propagators = nn.ModuleList(Propagator(config, generator) for _ in range(config.propagator_layers))
        self.norm = nn.Identity() if layout == "bare" else nn.LayerNorm(wide)
        widths, activation = {
            "bare": ([wide, wide // 2], nn.GELU),
            "grid": ([wide, latent, latent], nn.GELU),
            "mesh": ([wide + config.node_type_width, wide, latent], nn.ReLU),
        }[layout]
        self.head = chain([*widths, config.out_channels], activation, generator, last_bias=True)

    def start(
        self, encoded: Float[Tensor, "batch point channel"], place: Place, there: Place
    ) -> Float[Tensor, "batch query latent"]:
        """The latent state at time 0, at the queries `there`."""
        config = self.config
        frequency, width = config.frequency(config.cross_scale), config.latent_width
        x = self.embed(self.fourier(config.coordinate_scale * there.points))
        if self.join is not None:
            x = self.join(beside(x, _node_vectors(self.node_types, there)))
        x = x.expand(len(encoded), -1, -1)
        turn = rotation(there.points, width, frequency)
        context_turn = turn if place is there else rotation(place.points, width, frequency)
        x = x + self.attention(x, turn, self.dropout(encoded), context_turn, there.mask, place.mask)
        x = x + checkpoint(self.mlp, x, use_reentrant=False)
        if self.mixing is not None:
            x = x + self.mixing(x, turn, mask=there.mask)
        return self.widen(x)

    def frames(
        self, z: Float[Tensor, "batch query latent"], there: Place, wanted: list[int], told: Tensor | None
    ) -> Float[Tensor, "batch time query channel"]:
        """The answers at the wanted frames; of each step only its state is kept, the rest is computed again in backward.

        Args:
            told: (batch, step, condition), the conditions of each step.
        """
        nodes, answers = _node_vectors(self.node_types, there), []
        known = [] if self.config.layout == "bare" else [nodes, there.points]
        for frame in range(1, wanted[-1] + 1):
            now = [] if told is None else [told[:, frame - 1, None].expand(-1, z.shape[1], -1)]
            z = checkpoint(self._advanced, z, known + now, use_reentrant=False)
            if frame in wanted:
                answers.append(checkpoint(self._answer, z, nodes, use_reentrant=False))
        return torch.stack(answers, dim=1)

    def _advanced(self, z: Tensor, known: list[Tensor | None]) -> Tensor:
        for propagator in self.propagators:
            z = propagator(z, known)
        return z

    def _answer(self, z: Tensor, nodes: Tensor | None) -> Tensor:
        return self.head(beside(self.norm(z), nodes))


def _node_vectors(node_types: NodeTypes, place: Place) -> Float[Tensor, "#batch point channel"] | None:
    return None if place.node_type is None else node_types(place.node_type)
