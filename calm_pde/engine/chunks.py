"""What a convolution does, beside the tensors that it differentiates, chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from calm_pde.engine.orders import Chunk, Order
from calm_pde.engine.plan import Plan
from calm_pde.geometry import wrap
from calm_pde.types import Bool, Float, Int, Tensor

Geometry = Callable[..., Tensor]
"""(displacement, valid, query ids, *parameters) ↦ features (query, neighbor, hidden) or matrices (query, neighbor, in, out)."""


@dataclass
class Work:
    """One convolution: which pairs, which kernel, in which order and chunks."""

    plan: Plan
    order: Order
    geometry: Geometry
    periodic: tuple[bool, ...]
    index: Int[Tensor, "query neighbor"]
    valid: Bool[Tensor, "query neighbor"]
    num_points: int
    tail: bool
    operand: Tensor | None = None
    """What the products take of the kernel for all queries, where it is frozen."""
    shift: Float[Tensor, "query 1 out"] | None = None
    """Σ features·offset + bias, where it is frozen."""
    known: dict[tuple[int, int], Chunk] = field(default_factory=dict)

    def slices(self) -> Iterator[slice]:
        """The queries, so many at a time as the plan says."""
        starts = range(0, len(self.index), self.plan.chunk)
        for start in starts[:2] if self.index.is_meta else starts:  # without data, what one chunk holds, all hold
            yield slice(start, min(start + self.plan.chunk, len(self.index)))

    def row_slices(self, count: int) -> list[slice]:
        """The rows, so many at a time as the plan says."""
        return [slice(start, min(start + self.plan.rows, count)) for start in range(0, count, self.plan.rows)]

    def chunk(self, some: slice) -> Chunk:
        key = (some.start, some.stop)
        if key not in self.known:
            frozen = self.operand[some] if self.operand is not None and self.order.by_point else None
            self.known[key] = Chunk(self.index[some], self.valid[some], self.num_points, frozen)
        return self.known[key]

    def displacement(self, some: slice, points: Tensor, queries: Tensor) -> Tensor:
        return wrap(queries[some, None] - points[self.index[some]], self.periodic)

    def evaluated(self, some: slice, displacement: Tensor, parameters: tuple[Tensor, ...] | list[Tensor]) -> Tensor:
        """The geometry's answer to these displacements of some queries."""
        ids = torch.arange(some.start, min(some.stop, len(self.index)), device=displacement.device)
        return self.geometry(displacement, self.valid[some], ids, *parameters)

    def features(self, some: slice, points: Tensor, queries: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
        """The geometry's answer for some queries."""
        return self.evaluated(some, self.displacement(some, points, queries), parameters)

    def all_features(self, points: Tensor, queries: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
        return self.features(slice(0, len(self.index)), points, queries, parameters)


def shift_of(features: Tensor, offset: Tensor | None, bias: Tensor) -> Tensor:
    """What is the same for all rows: the pre-map's bias through the kernel, and the layer's own bias."""
    return bias[None, None] if offset is None else torch.addmm(bias, features.sum(dim=1), offset)[:, None]
