"""The processor ψ(Z, P): a transformer that gives the rate of change of the latent tokens."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from calm_pde.nn.attention import CombinedAttention, pairwise_squared_distances
from calm_pde.nn.fourier import RandomFourierFeatures
from calm_pde.nn.pointwise import PointwiseMLP, linear
from calm_pde.types import Float, Tensor


class Block(nn.Module):
    """x + Attn(x), then x + MLP(x); no norm on the stream, so that the scale of the features passes through."""

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.attention = CombinedAttention(width, heads, generator)
        self.mlp = PointwiseMLP(width, 2 * width, generator)

    def forward(
        self, x: Float[Tensor, "batch token channel"], minus_distances: Float[Tensor, "token token"]
    ) -> Float[Tensor, "batch token channel"]:
        x = x + self.attention(x, minus_distances)
        return x + self.mlp(x)


class Processor(nn.Module):
    """ψ(Z, P) = W^Out · blocks((Z ‖ RFF(P)) W^In, P)."""

    def __init__(
        self,
        channels: int,
        dim: int,
        periodic: tuple[bool, ...],
        *,
        width: int,
        heads: int,
        blocks: int,
        fourier_width: int,
        fourier_std: float,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.periodic = periodic
        self.fourier = RandomFourierFeatures(dim, fourier_width, fourier_std, generator)
        self.to_in = linear(channels + fourier_width, width, generator)
        self.blocks = nn.ModuleList(Block(width, heads, generator) for _ in range(blocks))
        self.to_out = linear(width, channels, generator)

    def at(self, positions: Float[Tensor, "token dim"]) -> Callable[[Tensor], Tensor]:
        """ψ(·, P) as a function of the tokens; what depends on the positions alone is computed once."""
        minus_distances = -pairwise_squared_distances(positions, self.periodic)
        of_tokens, of_positions = self.to_in.weight.split([self.to_out.out_features, self.fourier.width], dim=1)
        place = nn.functional.linear(self.fourier(positions), of_positions, self.to_in.bias)

        def velocity(z: Tensor) -> Tensor:
            x = nn.functional.linear(z, of_tokens) + place
            for block in self.blocks:
                x = block(x, minus_distances)
            return self.to_out(x)

        return velocity

    def forward(
        self, z: Float[Tensor, "batch token channel"], positions: Float[Tensor, "token dim"]
    ) -> Float[Tensor, "batch token channel"]:
        return self.at(positions)(z)
