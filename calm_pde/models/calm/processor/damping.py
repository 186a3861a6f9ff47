"""What damps the latent tokens: a learned linear part beside ψ that can't grow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import nn

from calm_pde.engine.precision import full_precision
from calm_pde.nn.matrices import Matrices
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
