"""Attention between points and a fixed number of modes, whose logits depend on positions alone (physics cross-attention).

Everything here that is done point by point is done chunk by chunk, so that what is held at once stays within a budget.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import nn

from calm_pde.engine.precision import full_precision
from calm_pde.nn.chunked import by_chunks
from calm_pde.nn.pointwise import ResidualMLP
from calm_pde.types import Bool, Float, Tensor

_STEEPNESS, _DEVIATION, _SAMPLE = 4.0, 3.0, 4096  # of a spread start; docs/baselines.md has what they were chosen by


class Modes(NamedTuple):
    """How points and modes see each other; `total` is the logarithm of the sum over the real points."""

    logits: Float[Tensor, "cloud point mode"]
    total: Float[Tensor, "cloud 1 mode"]
    outward: Float[Tensor, "cloud query mode"]


class PhysicsAttention(nn.Module):
    """S = MLP(MLP(p)): into modes by softmax of S over the points, back to points by softmax over the modes."""

    def __init__(self, dim: int, width: int, modes: int, layers: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.trunk = ResidualMLP(dim, width, width, layers, generator)
        self.score = ResidualMLP(width, width, modes, layers, generator)

    @torch.no_grad()
    def spread(self, generator: torch.Generator | None) -> None:
        """Start with modes that see different places: the trunk bends within the unit box, and logits vary over its points."""
        first, last = self.trunk.first, self.score.last
        first.weight *= _STEEPNESS
        first.bias.copy_(-(first.weight * torch.rand(first.weight.shape, generator=generator)).sum(dim=1))
        logits = self.score(self.trunk(torch.rand(_SAMPLE, first.in_features, generator=generator)))
        factor = _DEVIATION / logits.std(dim=0)
        last.weight *= factor[:, None]
        last.bias.copy_((last.bias - logits.mean(dim=0)) * factor)

    def forward(
        self,
        points: Float[Tensor, "*cloud point dim"],
        queries: Float[Tensor, "*ask query dim"] | None,
        mask: Bool[Tensor, "batch point"] | None,
        budget: int,
    ) -> Modes:
        """The logits at the points, and at the queries where these are others; positions at masked points must be finite."""
        logits = self._logits(points, budget)
        real = logits if mask is None else logits.masked_fill(~mask[..., None], -math.inf)
        outward = logits if queries is None else self._logits(queries, budget)
        return Modes(real, real.logsumexp(dim=-2, keepdim=True), outward)

    def _logits(self, points: Float[Tensor, "*cloud point dim"], budget: int) -> Float[Tensor, "cloud point mode"]:
        points = points if points.ndim == 3 else points[None]
        held = (self.trunk.held + self.score.held) * len(points) * points.element_size()
        with full_precision(points):
            return torch.cat(by_chunks(lambda some: self.score(self.trunk(some)), (points,), held, budget), dim=-2)


def encoded(
    branch: ResidualMLP, features: Float[Tensor, "batch time point in"], modes: Modes, budget: int
) -> Float[Tensor, "batch time mode out"]:
    """Σ over points of exp(S − total) · branch(features)."""
    clouds = len(modes.logits)

    def some(logits: Tensor, features: Tensor) -> Tensor:
        weights = (logits - modes.total).exp().mT[:, None]
        x = branch(features)
        return (weights @ x.view(clouds, -1, *x.shape[-2:])).view(*x.shape[:2], -1, x.shape[-1])

    rows = math.prod(features.shape[:2])
    held = (rows * branch.held + (rows + clouds) * modes.logits.shape[-1]) * features.element_size()
    first, *others = by_chunks(some, (modes.logits, features), held, budget)
    for other in others:
        first = first + other
    return first


def decoded(
    head: ResidualMLP, z: Float[Tensor, "batch time mode channel"], modes: Modes, budget: int
) -> Float[Tensor, "batch time query out"]:
    """head(Σ over modes of softmax(S) · z) at the queries."""
    clouds = len(modes.outward)
    values = z.view(clouds, -1, *z.shape[-2:])

    def some(logits: Tensor) -> Tensor:
        return head((logits.softmax(dim=-1)[:, None] @ values).view(*z.shape[:2], -1, z.shape[-1]))

    rows = math.prod(z.shape[:2])
    held = (rows * head.held + (rows + clouds) * modes.outward.shape[-1]) * z.element_size()
    return torch.cat(by_chunks(some, (modes.outward,), held, budget), dim=-2)
