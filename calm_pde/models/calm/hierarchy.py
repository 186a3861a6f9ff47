"""A hierarchy of CALM layers, each reading the points where the one before it answered: an encoder or a decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from torch import nn

from calm_pde.engine.receptive_fields import Neighbors
from calm_pde.models.calm.layer import CalmLayer, rows_first, rows_inside, without_masked
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
        neighbors: tuple[Neighbors | None, ...] | None = None,
        parameters: Float[Tensor, "batch parameter"] | None = None,
    ) -> tuple[Float[Tensor, "*batch query out"], Float[Tensor, "*ask query dim"]]:
        """Features at the last layer's queries, and those queries; arguments are trusted. Rows stay inside in between.

        A layer whose queries follow the state finds its neighbors itself, so that its entry of `neighbors` is None.

        Args:
            parameters: what kernels see, where they see something.
        """
        lead = x.shape[:-2]
        if mask is not None:
            points, x = without_masked(points, x, mask)
        rows = None
        for depth, layer in enumerate(self):
            outside = queries if layer.queries is None else None
            if rows is None:
                rows = rows_inside(x, layer.clouds(lead, points, outside, mask, parameters))
            found = None if neighbors is None else neighbors[depth]
            rows, points = layer.answered(rows, lead, points, outside, mask, found, parameters)
            mask = None
        return (x if rows is None else rows_first(rows, lead).to(x.dtype)), points

    def neighbors(self, points: Tensor, queries: Tensor | None = None, mask: Tensor | None = None) -> tuple[Neighbors, ...]:
        """The receptive fields of all layers."""
        found = []
        for layer in self:
            outside = queries if layer.queries is None else None
            found.append(layer.neighbors(points, outside, mask))
            points, mask = layer.where(outside), None
        return tuple(found)
