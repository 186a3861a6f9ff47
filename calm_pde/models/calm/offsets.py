"""Query points that follow the state: how far each moves, for each sample, from where it rests."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import nn

from calm_pde.engine.chunks import Work
from calm_pde.engine.convolution import convolve
from calm_pde.engine.kernel_features import in_radii, neighbor_weights
from calm_pde.engine.orders import Sizes
from calm_pde.engine.plan import plan
from calm_pde.engine.precision import full_precision
from calm_pde.geometry import squared_distances
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import linear
from calm_pde.types import Bool, Float, Int, Tensor


class QueryOffsets(nn.Module):
    """a_j(u) = a_j + ρ · r_j · tanh(W σ(V m_j + b)): a query moves by at most ρ · r_j along each axis.

    r_j is the radius of the receptive field RF(a_j) of the place a_j where the query rests, in training without a gradient of
    its own (`radii_count`: with it, so that derivatives of the answer are exact), ρ the `reach`. m_j holds what the layer's
    features f and points α are like there, means over RF(a_j) of f, of e and of f ⊗ e, where e = (a_j − α)/r_j: the level of
    the field, how its points lie, and its slopes. V m_j is itself a continuous convolution, with the kernel V of (1, e)/M. W
    starts at zero: in a fresh model the queries rest.
    """

    declared_matrices: ClassVar[dict[str, Matrices]] = {"filters": Matrices()}

    def __init__(self, in_channels: int, dim: int, reach: float, width: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.reach, self.radii_count = reach, False
        bound = 1 / math.sqrt((dim + 1) * (in_channels + 1))
        self.filters = nn.Parameter(torch.empty(dim + 1, in_channels, width).uniform_(-bound, bound, generator=generator))
        self.places = nn.Parameter(torch.empty(dim, width).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound, generator=generator))
        self.write = linear(width, dim, generator, bias=False)
        nn.init.zeros_(self.write.weight)

    def forward(
        self,
        x: Float[Tensor, "point row in"],
        index: Int[Tensor, "query neighbor"],
        valid: Bool[Tensor, "query neighbor"],
        points: Float[Tensor, "point dim"],
        rest: Float[Tensor, "query dim"],
        periodic: tuple[bool, ...],
        memory_budget: int,
    ) -> Float[Tensor, "query row dim"]:
        """a_j(u) − a_j of each row of features, in full precision, as positions are."""
        sizes = Sizes(
            points=len(points),
            queries=len(rest),
            neighbors=index.shape[1],
            rows=x.shape[1],
            inputs=x.shape[2],
            outputs=len(self.bias),
            hidden=len(self.filters),
            tail=False,
            itemsize=rest.itemsize,
        )
        chosen = plan(sizes, memory_budget)
        work = Work(chosen, chosen.order, _of_moments, periodic, index, valid, len(points), False)
        level_and_places = torch.cat([self.bias[None], self.places])
        with full_precision(x):
            x, nothing = x.to(rest.dtype).contiguous(), torch.zeros_like(self.bias)
            seen = convolve(work, x, points, rest, self.filters, level_and_places, nothing, (), ())
            share = torch.tanh(self.write(nn.functional.gelu(seen)))
        held = (points, rest) if self.radii_count else (points.detach(), rest.detach())
        return self.reach * _radii(work, *held)[:, None, None] * share


def _of_moments(
    displacement: Float[Tensor, "query neighbor dim"], valid: Bool[Tensor, "query neighbor"], ids: Int[Tensor, "query"]
) -> Float[Tensor, "query neighbor moment"]:
    """(1, e)/M over each receptive field of M points; zero at padding."""
    share = neighbor_weights(displacement, valid, "mean", 1.0)[..., None]
    return torch.cat([share, in_radii(displacement) * share], dim=-1)


def _radii(work: Work, points: Float[Tensor, "point dim"], queries: Float[Tensor, "query dim"]) -> Float[Tensor, "query"]:
    """How far each receptive field goes, some queries at a time."""
    starts = range(0, len(queries), work.plan.chunk)
    some = (work.displacement(slice(start, start + work.plan.chunk), points, queries) for start in starts)
    squared = torch.cat([squared_distances(away).amax(dim=-1) for away in some])
    if squared.requires_grad:
        squared = squared.clamp(min=torch.finfo(squared.dtype).tiny)  # the root has no slope at 0
    return squared.sqrt()
