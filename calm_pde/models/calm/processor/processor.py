"""The processor ψ(Z, P): a transformer that gives the rate of change of the latent tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast

import torch
from torch import nn

from calm_pde.engine.latent_steps import latent_states
from calm_pde.engine.plain import BlockWeights, ProcessorWeights, plain_attention, velocity
from calm_pde.engine.precision import autocast_type
from calm_pde.engine.stepping import INTEGRATORS, trajectory, walk
from calm_pde.engine.transforms import seen_through
from calm_pde.models.calm.processor.attention import CombinedAttention, RelativePositions, nearness
from calm_pde.models.calm.processor.damping import DAMPINGS, Damping
from calm_pde.nn.fourier import RandomFourierFeatures
from calm_pde.nn.pointwise import PointwiseMLP, linear
from calm_pde.types import Float, Tensor

Positions = Literal["absolute", "relative", "both"]


class Block(nn.Module):
    """The weights of one block of ψ."""

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.attention = CombinedAttention(width, heads, generator)
        self.mlp = PointwiseMLP(width, 2 * width, generator)

    @property
    def weights(self) -> BlockWeights:
        attention = self.attention
        qkv, query, key, out = attention.to_qkv, attention.norm_query, attention.norm_key, attention.to_out
        norms = (query.weight, query.bias, key.weight, key.bias)
        return BlockWeights(qkv.weight, qkv.bias, *norms, out.weight, out.bias, *self.mlp.weights)


class Processor(nn.Module):
    """ψ(Z, P) = W^Out · blocks((Z ‖ RFF(P)) W^In, P), and beside it −AZ where it is damped.

    Args:
        positions: how tokens know where they are: `absolute` by RFF(P); `relative` by what attention adds for two of them, see
            `RelativePositions`, without RFF(P): then ψ commutes with every translation of the tokens; or `both`.
    """

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
        positions: Positions = "absolute",
        damping: Damping = "none",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.periodic, self.heads = periodic, heads
        self.fourier = None if positions == "relative" else RandomFourierFeatures(dim, fourier_width, fourier_std, generator)
        self.to_in = linear(channels + (fourier_width if self.fourier else 0), width, generator)
        self.blocks = nn.ModuleList(Block(width, heads, generator) for _ in range(blocks))
        self.to_out = linear(width, channels, generator)
        self.damping = DAMPINGS[damping](channels)
        self.relative = None
        if positions != "absolute":
            self.relative = RelativePositions(periodic, heads, fourier_width, fourier_std, generator)

    def at(self, positions: Float[Tensor, "*sample token dim"]) -> Dynamics:
        """The rate of change as a function of the tokens, at positions that all samples share or that each has of its own.

        What depends on positions and weights alone is computed once.
        """
        near = nearness(positions, self.periodic, self.relative)
        channels = self.to_out.out_features
        of_tokens, of_positions = self.to_in.weight.split([channels, self.to_in.in_features - channels], dim=1)
        place = self.to_in.bias.expand(*positions.shape[:-1], -1)
        if self.fourier is not None:
            place = nn.functional.linear(self.fourier(positions), of_positions, self.to_in.bias)
        blocks = tuple(block.weights for block in cast(Iterable[Block], self.blocks))
        out, damping = self.to_out, None if self.damping is None else self.damping()
        return Dynamics(ProcessorWeights(place, near, of_tokens, out.weight, out.bias, blocks, damping), self.heads)

    def forward(
        self, z: Float[Tensor, "batch token channel"], positions: Float[Tensor, "*sample token dim"]
    ) -> Float[Tensor, "batch token channel"]:
        return self.at(positions)(z)


class Dynamics:
    """dz/dt = ψ(z, P) − Az at fixed positions."""

    def __init__(self, weights: ProcessorWeights, heads: int) -> None:
        self.weights, self.heads = weights, heads

    def __call__(self, z: Float[Tensor, "batch token channel"]) -> Float[Tensor, "batch token channel"]:
        """The right side as its formula."""
        return velocity(self.weights, self.heads, z)

    def trajectory(
        self, z: Float[Tensor, "batch token channel"], times: Sequence[float], integrator: str, substeps: int
    ) -> Float[Tensor, "batch time token channel"]:
        """The state now and at each of the increasing times, counted in frames."""
        if seen_through():
            with plain_attention():
                return trajectory(self, z, times, integrator, substeps)
        if autocast_type(z) is not None:
            return trajectory(self, z, times, integrator, substeps)
        return latent_states(self.weights, self.heads, z, walk(times, substeps), INTEGRATORS[integrator])
