"""The processor ψ(Z, P): a transformer that gives the rate of change of the latent tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, cast

import torch
from torch import nn

from calm_pde.engine.latent_steps import latent_states
from calm_pde.engine.plain import BlockWeights, ProcessorWeights, plain_attention, velocity
from calm_pde.engine.precision import autocast_type
from calm_pde.engine.stepping import INTEGRATORS, trajectory, walk
from calm_pde.engine.transforms import seen_through
from calm_pde.geometry import squared_distances, wrap
from calm_pde.nn.fourier import RandomFourierFeatures
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import PointwiseMLP, linear
from calm_pde.types import Float, Tensor


class CombinedAttention(nn.Module):
    """The weights of softmax(LN(HW^Q) LN(HW^K)ᵀ/√(head width) − ‖p_i − p_j‖²) HW^V per head, then one output map."""

    declared_matrices: ClassVar[dict[str, Matrices]] = {"to_qkv.weight": Matrices(parts=3)}

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = linear(width, 3 * width, generator)
        self.norm_query = nn.LayerNorm(width // heads)
        self.norm_key = nn.LayerNorm(width // heads)
        self.to_out = linear(width, width, generator)


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
        self.periodic, self.heads = periodic, heads
        self.fourier = RandomFourierFeatures(dim, fourier_width, fourier_std, generator)
        self.to_in = linear(channels + fourier_width, width, generator)
        self.blocks = nn.ModuleList(Block(width, heads, generator) for _ in range(blocks))
        self.to_out = linear(width, channels, generator)

    def at(self, positions: Float[Tensor, "*sample token dim"]) -> Dynamics:
        """ψ(·, P) as a function of the tokens, at positions that all samples share or that each has of its own.

        What depends on the positions alone is computed once.
        """
        minus_distances = -pairwise_squared_distances(positions, self.periodic)
        of_tokens, of_positions = self.to_in.weight.split([self.to_out.out_features, self.fourier.width], dim=1)
        place = nn.functional.linear(self.fourier(positions), of_positions, self.to_in.bias)
        blocks = tuple(block.weights for block in cast(Iterable[Block], self.blocks))
        return Dynamics(
            ProcessorWeights(place, minus_distances, of_tokens, self.to_out.weight, self.to_out.bias, blocks), self.heads
        )

    def forward(
        self, z: Float[Tensor, "batch token channel"], positions: Float[Tensor, "*sample token dim"]
    ) -> Float[Tensor, "batch token channel"]:
        return self.at(positions)(z)


class Dynamics:
    """dz/dt = ψ(z, P) at fixed positions."""

    def __init__(self, weights: ProcessorWeights, heads: int) -> None:
        self.weights, self.heads = weights, heads

    def __call__(self, z: Float[Tensor, "batch token channel"]) -> Float[Tensor, "batch token channel"]:
        """ψ as its formula."""
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


def pairwise_squared_distances(
    positions: Float[Tensor, "*sample token dim"], periodic: tuple[bool, ...]
) -> Float[Tensor, "*sample token token"]:
    return squared_distances(wrap(positions[..., :, None, :] - positions[..., None, :, :], periodic))
