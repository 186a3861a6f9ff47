"""A hierarchy of CALM layers, each reading the points where the one before it answered: an encoder or a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from torch import nn

from calm_pde.neighbors import Neighbors
from calm_pde.nn.layer import CalmLayer
from calm_pde.types import Bool, Float, Tensor


class Hierarchy(nn.ModuleList):
    """l_k(… l_1(f, 𝒜, A₁) …, A_k); a mask belongs to the first layer's points, external queries to the last layer."""

    def __iter__(self) -> Iterator[CalmLayer]:
        return cast(Iterator[CalmLayer], super().__iter__())

    def convolve(
        self,
        x: Float[Tensor, "*batch point in"],
        points: Float[Tensor, "*cloud point dim"],
        queries: Float[Tensor, "*ask query dim"] | None = None,
        mask: Bool[Tensor, "*sample point"] | None = None,
        neighbors: tuple[Neighbors, ...] | None = None,
    ) -> tuple[Float[Tensor, "*batch query out"], Float[Tensor, "*ask query dim"]]:
        """Features at the last layer's queries, and those queries; arguments are trusted."""
        for depth, layer in enumerate(self):
            found = None if neighbors is None else neighbors[depth]
            x, points = layer.convolve(x, points, queries if layer.queries is None else None, mask, found)
            mask = None
        return x, points

    def neighbors(self, points: Tensor, queries: Tensor | None = None, mask: Tensor | None = None) -> tuple[Neighbors, ...]:
        """The receptive fields of all layers."""
        found = []
        for layer in self:
            outside = queries if layer.queries is None else None
            found.append(layer.neighbors(points, outside, mask))
            points, mask = layer.where(outside), None
        return tuple(found)
