"""The processor ψ(Z, P): a transformer that gives the rate of change of the latent tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Literal, cast

import torch
from torch import nn

from calm_pde.engine.latent_steps import latent_states
from calm_pde.engine.plain import BlockWeights, Modulation, ProcessorWeights, plain_attention, velocity
from calm_pde.engine.precision import autocast_type
from calm_pde.engine.stepping import INTEGRATORS, walk, walked
from calm_pde.engine.transforms import seen_through
from calm_pde.models.calm.processor.attention import CombinedAttention, RelativePositions, nearness
from calm_pde.models.calm.processor.damping import DAMPINGS, Damping
from calm_pde.models.calm.processor.modulator import Modulator
from calm_pde.models.conditions import Known
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
    """ψ(Z, P, c(t)) = W^Out · blocks((Z ‖ RFF(P)) W^In, P, c(t)), and beside it −AZ where it is damped.

    Args:
        positions: how tokens know where they are: `absolute` by RFF(P); `relative` by what attention adds for two of them, see
            `RelativePositions`, without RFF(P): then ψ commutes with every translation of the tokens; or `both`.
        modulator: what conditions do to the blocks; None where there are none.
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
        modulator: Modulator | None = None,
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
        self.modulator = modulator

    def at(self, positions: Float[Tensor, "*sample token dim"]) -> Dynamics:
        """The rate of change as a function of the tokens, at positions that all samples share or that each has of its own.

        What depends on positions and weights alone is computed once. Without more, nothing is known of conditions.
        """
        near = nearness(positions, self.periodic, self.relative)
        channels = self.to_out.out_features
        of_tokens, of_positions = self.to_in.weight.split([channels, self.to_in.in_features - channels], dim=1)
        place = self.to_in.bias.expand(*positions.shape[:-1], -1)
        if self.fourier is not None:
            place = nn.functional.linear(self.fourier(positions), of_positions, self.to_in.bias)
        blocks = tuple(block.weights for block in cast(Iterable[Block], self.blocks))
        out, damping = self.to_out, None if self.damping is None else self.damping()
        weights = ProcessorWeights(place, near, of_tokens, out.weight, out.bias, blocks, damping)
        return Dynamics(weights, self.heads, self.modulator)

    def forward(
        self, z: Float[Tensor, "batch token channel"], positions: Float[Tensor, "*sample token dim"]
    ) -> Float[Tensor, "batch token channel"]:
        return self.at(positions)(z)


class Dynamics:
    """dz/dt = ψ(z, P, c(t)) − Az at fixed positions, with c where something is `known`."""

    def __init__(
        self, weights: ProcessorWeights, heads: int, modulator: Modulator | None = None, known: Known | None = None
    ) -> None:
        self.weights, self.heads, self.modulator, self.known = weights, heads, modulator, known

    def under(self, known: Known) -> Dynamics:
        """The same under known parameters and signals."""
        return Dynamics(self.weights, self.heads, self.modulator, known)

    def __call__(self, z: Float[Tensor, "batch token channel"], time: float = 0.0) -> Float[Tensor, "batch token channel"]:
        """The right side as its formula."""
        return velocity(self.weights, self.heads, self._modulation([time]), z, time)

    def trajectory(
        self, z: Float[Tensor, "batch token channel"], times: Sequence[float], integrator: str, substeps: int
    ) -> Float[Tensor, "batch time token channel"]:
        """The state now and at each of the increasing times, counted in frames."""
        way, method = walk(times, substeps), INTEGRATORS[integrator]
        modulation = self._modulation(way.moments(method))
        formula = partial(velocity, self.weights, self.heads, modulation)
        if seen_through():
            with plain_attention():
                return walked(formula, z, way, method)
        if autocast_type(z) is not None:
            return walked(formula, z, way, method)
        return latent_states(self.weights, self.heads, modulation, z, way, method)

    def _modulation(self, moments: Sequence[float]) -> Modulation | None:
        """What conditions make of the blocks at these moments."""
        if self.modulator is None or self.known is None or not moments:
            return None
        return self.modulator(self.known, moments)
