"""Features of points that are orthonormal over a batch: what eigenfunctions of a kernel are."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn
from torch.linalg import cholesky, solve_triangular
from torch.nn.functional import softplus

from calm_pde.engine.precision import full_precision
from calm_pde.nn.pointwise import small_linear
from calm_pde.types import Bool, Float, Tensor

Projection = Literal["sum", "mean"]

_MEMORY = 0.9  # of the covariance, from step to step
_ROUNDING = {torch.float64: 1e-12}  # beside a covariance, relative to its mean variance
_COARSE = 1e-6
_NOTHING = 1e-20  # a variance where all functions are zero


class Orthonormal(nn.Module):
    """ψ = (W x + b) L⁻ᵀ with L Lᵀ = Σ, the mean of the outer products of W x + b over all real points.

    In training Σ is that of the batch, so that the mean of ψ ψᵀ over it is 1, and its moving average is kept; otherwise Σ is
    that average, and an answer depends on no batch mate. Before any training it is 1.
    """

    covariance: Tensor

    def __init__(self, width: int, functions: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.to_functions = small_linear(width, functions, generator)
        self.register_buffer("covariance", torch.eye(functions))

    def forward(
        self, x: Float[Tensor, "row point channel"], mask: Bool[Tensor, "row point"] | None
    ) -> Float[Tensor, "row point function"]:
        """Zero at masked points."""
        raw = self.to_functions(x)
        with full_precision(raw):
            raw = raw.to(torch.promote_types(raw.dtype, torch.float32))
            if mask is not None:
                raw = raw.masked_fill(~mask[..., None], 0.0)
            factor = cholesky(self._covariance(raw, mask))
            return solve_triangular(factor.mT.to(raw.dtype), raw, upper=True, left=False)

    def _covariance(
        self, raw: Float[Tensor, "row point function"], mask: Bool[Tensor, "row point"] | None
    ) -> Float[Tensor, "function function"]:
        """In float64, and never singular."""
        if self.training:
            flat = raw.flatten(0, 1)
            found = flat.mT @ flat / (len(flat) if mask is None else mask.sum())
            with torch.no_grad():
                self.covariance.lerp_(found.to(self.covariance.dtype), 1 - _MEMORY)
        else:
            found = self.covariance
        found, rounding = found.double(), _ROUNDING.get(raw.dtype, _COARSE)
        least = rounding * found.diagonal().mean() + _NOTHING
        return found + least * torch.eye(len(found), dtype=found.dtype, device=found.device)


class KernelIntegral(nn.Module):
    """f + ψ diag(softplus(μ)) ψᵀ f, where ψᵀ f is a sum over the real points, or their mean; μ is 0 at first.

    Args:
        projection: the `sum` is published, and grows with the number of points; the `mean` is the same on any mesh.
    """

    def __init__(self, functions: int, projection: Projection) -> None:
        super().__init__()
        self.projection = projection
        self.strength = nn.Parameter(torch.zeros(functions))

    def forward(
        self,
        f: Float[Tensor, "row point channel"],
        functions: Float[Tensor, "row point function"],
        mask: Bool[Tensor, "row point"] | None,
    ) -> Float[Tensor, "row point channel"]:
        functions = functions.to(f.dtype)
        found = functions.mT @ f
        if self.projection == "mean":
            found = found / (f.shape[1] if mask is None else mask.sum(dim=1).view(-1, 1, 1))
        return f + (functions * softplus(self.strength)) @ found
