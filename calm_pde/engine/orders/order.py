"""What an order of the contraction is: its products, its gradients, its cost and its frozen form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from calm_pde.engine.buffers import SCRATCH, Scratch
from calm_pde.engine.orders.pairs import PointPairs, point_pairs
from calm_pde.types import Bool, Float, Int, Tensor

FLOPS_PER_BYTE = 8  # a byte moved costs as much as this many floating-point operations (measured, docs/engine.md)


class Sizes(NamedTuple):
    """What a layer's work depends on; queries and points are counted over all clouds."""

    points: int
    queries: int
    neighbors: int
    rows: int
    inputs: int
    outputs: int
    hidden: int | None
    """Of the kernel MLP, with the base filter; None for a kernel without low rank."""
    tail: bool
    """Whether a pointwise MLP follows."""
    itemsize: int = 4
    frozen: bool = False
    """Whether the kernel is evaluated once and kept."""

    @property
    def pairs(self) -> int:
        return self.queries * self.neighbors

    @property
    def width(self) -> int:
        """Of the kernel's features; 0 where there are none."""
        return self.hidden or 0

    @property
    def lifted(self) -> int:
        """Numbers that one point holds where the filters have met its features."""
        return self.width * self.outputs * self.rows


class Sums(NamedTuple):
    """Gradients of the whole cloud, to which an order adds what it finds in a chunk; None where nobody asks."""

    x: Float[Tensor, "point row in"] | None
    filters: Float[Tensor, "hidden in out"] | None
    lifted: Float[Tensor, "point hidden column"] | None


class Chunk:
    """Some queries with their neighbors."""

    def __init__(
        self,
        index: Int[Tensor, "query neighbor"],
        valid: Bool[Tensor, "query neighbor"],
        num_points: int,
        frozen: Tensor | None = None,
    ) -> None:
        self.index, self.num_points = index, num_points
        self._valid, self._frozen = valid, frozen
        self._pairs: PointPairs | None = None

    @property
    def pairs(self) -> PointPairs:
        """Which of its (query, neighbor) pairs each point serves; found once."""
        if self._pairs is None:
            found = point_pairs(self.index, self._valid)
            self._pairs = found if self._frozen is None else found.with_features(self._frozen)
        return self._pairs


class Order(ABC):
    """One order of y_qro = Σ_n Σ_h Σ_i features_qnh · filters_hio · x_{index(q,n)ri} on a chunk of queries.

    Channels stand last and rows (batch × time) before them, so that a neighbor is one contiguous block and every product with
    the filters is one plain matrix product. The backward gathers again instead of saving. An order has no state.
    """

    name: ClassVar[str]
    by_point: ClassVar[bool] = False
    """Whether the filters meet the features of every point first (`lifted`), before any neighbor is looked at."""
    low_rank: ClassVar[bool] = True
    """Whether it needs a kernel that is features @ filters."""
    query_axis: ClassVar[int] = 0
    """Where queries stand in its operand."""

    def __repr__(self) -> str:
        return self.name

    @abstractmethod
    def flops(self, s: Sizes) -> int:
        """Floating-point operations of the forward pass."""

    @abstractmethod
    def moved(self, s: Sizes, chunk: int) -> int:
        """Numbers read and written in the forward pass, in chunks of so many queries."""

    @abstractmethod
    def held(self, s: Sizes, rows: int) -> int:
        """Numbers that the product of one query holds at the most, backward included."""

    def cost(self, s: Sizes, chunk: int) -> int:
        """Floating-point operations, plus bytes moved in units of operations."""
        return self.flops(s) + FLOPS_PER_BYTE * s.itemsize * self.moved(s, chunk)

    def frozen_form(self, filters: Float[Tensor, "hidden in out"] | None) -> Order:
        """The order that takes its place where the kernel is evaluated once and kept."""
        return self

    def lifted(self, x: Float[Tensor, "point row in"], filters: Tensor | None, kept: bool) -> Tensor | None:
        """What the orders by point compute at every point first; in memory of its own where it is to be kept."""
        return None

    def unlifted(self, x: Tensor, filters: Tensor, sums: Sums) -> Tensor | None:
        """The gradient of x from that of `lifted`; that of the filters is added to its sum."""
        return sums.x

    def operand(
        self,
        chunk: Chunk,
        features: Float[Tensor, "query neighbor hidden"] | Float[Tensor, "query neighbor in out"],
        filters: Float[Tensor, "hidden in out"] | None,
        scratch: Scratch | None = None,
    ) -> Tensor:
        """What the product takes of the kernel."""
        return features

    @abstractmethod
    def product(
        self,
        chunk: Chunk,
        operand: Tensor,
        filters: Float[Tensor, "hidden in out"] | None,
        x: Float[Tensor, "point row in"],
        lifted: Tensor | None,
        place: Float[Tensor, "query row out"] | None,
    ) -> Float[Tensor, "query row out"]:
        """y of the chunk, in `place` where it is given and contiguous, and the order can write there."""

    @abstractmethod
    def backward(
        self,
        chunk: Chunk,
        features: Tensor,
        operand: Tensor | None,
        filters: Tensor | None,
        x: Float[Tensor, "point row in"],
        lifted: Tensor | None,
        grad: Float[Tensor, "query row out"],
        sums: Sums,
    ) -> Tensor:
        """The gradient of the features; those of x, the filters and `lifted` are added to their sums.

        `operand` is what the forward of this chunk took, where it was computed again already.
        """


def given(value: Tensor | None) -> Tensor:
    """What an order can't do without, which is why a plan chooses it only where it is there."""
    if value is None:
        raise TypeError("an order of low rank was chosen for a kernel without filters")
    return value


def room(place: Tensor | None, x: Tensor, queries: int, outputs: int) -> Float[Tensor, "query row out"]:
    """`place` where it is contiguous, and else scratch memory."""
    if place is not None and place.is_contiguous():
        return place
    return SCRATCH.new("before", x, queries, x.shape[1], outputs)
