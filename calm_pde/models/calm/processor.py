"""The processor ψ(Z, P): a transformer that gives the rate of change of the latent tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Literal, cast

import torch
from torch import nn

from calm_pde.engine.latent_steps import latent_states
from calm_pde.engine.plain import BlockWeights, ProcessorWeights, plain_attention, velocity
from calm_pde.engine.precision import autocast_type, full_precision
from calm_pde.engine.stepping import INTEGRATORS, trajectory, walk
from calm_pde.engine.transforms import seen_through
from calm_pde.geometry import squared_distances, wrap
from calm_pde.nn.fourier import RandomFourierFeatures
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import PointwiseMLP, linear
from calm_pde.types import Float, Tensor

_SLOWEST, _FASTEST = 1e-3, 1e-2  # rates per frame at which a fresh A damps, over the channels


class DiagonalDamping(nn.Module):
    """A = Γ(I + Γ)⁻¹ with Γ = diag(softplus(a)): every channel decays at a rate of its own.

    Where ψ is silent, Euler's step of a frame is I − A = (I + Γ)⁻¹, the implicit step of dz/dt = −Γz: whatever is learned, the
    eigenvalues of A lie in [0, 1], in which every method of `INTEGRATORS` with steps of at most a frame only shrinks z.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.raw_rates = nn.Parameter(_first_rates(channels).expm1().log())

    def forward(self) -> Float[Tensor, "channel channel"]:
        rates = nn.functional.softplus(self.raw_rates)
        return torch.diag(rates / (1 + rates))


class FullDamping(nn.Module):
    """The same with Γ = GᵀG: rates of directions that are learned, too. It starts as the diagonal one does."""

    declared_matrices: ClassVar[dict[str, Matrices]] = {"factor": Matrices()}

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.diag(_first_rates(channels).sqrt()))

    def forward(self) -> Float[Tensor, "channel channel"]:
        with full_precision(self.factor):
            factor = self.factor.to(torch.promote_types(self.factor.dtype, torch.float32))
            gram = factor.T @ factor
            unit = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
            return torch.linalg.solve(unit + gram, gram).to(self.factor.dtype)


def _first_rates(channels: int) -> Float[Tensor, "channel"]:
    """Without a draw, so that all other weights are those of a model without damping."""
    return torch.logspace(math.log10(_SLOWEST), math.log10(_FASTEST), channels)


Damping = Literal["none", "diagonal", "full"]
DAMPINGS: dict[Damping, Callable[[int], nn.Module | None]] = {
    "none": lambda _: None,
    "diagonal": DiagonalDamping,
    "full": FullDamping,
}


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
    """ψ(Z, P) = W^Out · blocks((Z ‖ RFF(P)) W^In, P), and beside it −AZ where it is damped."""

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
        damping: Damping = "none",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.periodic, self.heads = periodic, heads
        self.fourier = RandomFourierFeatures(dim, fourier_width, fourier_std, generator)
        self.to_in = linear(channels + fourier_width, width, generator)
        self.blocks = nn.ModuleList(Block(width, heads, generator) for _ in range(blocks))
        self.to_out = linear(width, channels, generator)
        self.damping = DAMPINGS[damping](channels)

    def at(self, positions: Float[Tensor, "*sample token dim"]) -> Dynamics:
        """The rate of change as a function of the tokens, at positions that all samples share or that each has of its own.

        What depends on positions and weights alone is computed once.
        """
        minus_distances = -pairwise_squared_distances(positions, self.periodic)
        of_tokens, of_positions = self.to_in.weight.split([self.to_out.out_features, self.fourier.width], dim=1)
        place = nn.functional.linear(self.fourier(positions), of_positions, self.to_in.bias)
        blocks = tuple(block.weights for block in cast(Iterable[Block], self.blocks))
        out, damping = self.to_out, None if self.damping is None else self.damping()
        return Dynamics(ProcessorWeights(place, minus_distances, of_tokens, out.weight, out.bias, blocks, damping), self.heads)

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


def pairwise_squared_distances(
    positions: Float[Tensor, "*sample token dim"], periodic: tuple[bool, ...]
) -> Float[Tensor, "*sample token token"]:
    return squared_distances(wrap(positions[..., :, None, :] - positions[..., None, :, :], periodic))
