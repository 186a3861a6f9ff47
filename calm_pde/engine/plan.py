"""The cost model: which order of contraction a layer takes, and in which chunks, from shapes, config and budget alone.

docs/engine.md derives the formulas. Nothing here reads the machine's state, so the same seed gives the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

from calm_pde.engine.orders import ORDERS, Order, Sizes
from calm_pde.errors import ConfigError

DEFAULT_BUDGET = 512 * 2**20
"""Bytes a layer may hold beside its inputs and outputs, unless told otherwise."""

WORKING_SET = 32 * 2**20  # a chunk is made to stay in the cache and to reuse memory that is already mapped


class Plan(NamedTuple):
    order: Order
    chunk: int
    """Queries taken together."""
    rows: int
    """Rows taken together."""
    keep: bool
    """Whether the convolution's output is saved for the backward, or computed again."""
    keep_hidden: bool = False
    """The same for the hidden layer of the pointwise MLP behind it."""
    keep_geometry: bool = False
    """The same for the kernel's features."""
    keep_lifted: bool = False
    """The same for what the orders by point begin with."""


def geometry_bytes(s: Sizes) -> int:
    """Bytes that the geometry of one query takes with all that its backward needs."""
    return 0 if s.frozen else 12 * s.neighbors * (s.width + 2) * s.itemsize


def chunk_bytes(order: Order, s: Sizes, rows: int) -> int:
    """Bytes that one query of a chunk holds at the most, backward included: the product or the MLP."""
    tail = 14 * s.outputs * rows if s.tail else 0
    return s.itemsize * (2 * s.outputs * rows + max(order.held(s, rows), tail))


def keeps_geometry(s: Sizes, budget: int) -> bool:
    """Whether the geometry of all queries fits; else a chunk holds its own."""
    return s.hidden is not None and s.queries * geometry_bytes(s) <= budget // 4


def plan(s: Sizes, budget: int) -> Plan:
    """The cheapest order that fits, in chunks that stay within the budget; what is kept takes a quarter of it at most."""
    orders = [order for order in ORDERS if _possible(order, s, budget)]
    chunks = [_chunk(order, s, budget) for order in orders]
    costs = [order.cost(s, chunk) for order, (chunk, _) in zip(orders, chunks, strict=True)]
    cheapest = costs.index(min(costs))
    order, (chunk, rows) = orders[cheapest], chunks[cheapest]
    room = budget // 4
    keep = s.queries * s.outputs * s.rows * s.itemsize <= room
    keep_hidden = s.tail and rows == s.rows and 4 * s.queries * s.outputs * s.rows * s.itemsize <= room
    keep_geometry = not s.frozen and keeps_geometry(s, budget)
    keep_lifted = order.by_point and rows == s.rows and s.points * s.lifted * s.itemsize <= room
    return Plan(order, chunk, rows, keep, keep_hidden, keep_geometry, keep_lifted)


def _possible(order: Order, s: Sizes, budget: int) -> bool:
    """Whether the kernel has what the order needs, and all that it holds for good fits."""
    if s.hidden is None:
        return not order.low_rank
    matrices = s.pairs * s.inputs * s.outputs * s.itemsize
    too_large = s.frozen and not order.low_rank and matrices > budget
    return not too_large and _rows(order, s, budget) >= 1


def _chunk(order: Order, s: Sizes, budget: int) -> tuple[int, int]:
    """Queries and rows that are taken together."""
    rows, geometry = _rows(order, s, budget), 0 if keeps_geometry(s, budget) else geometry_bytes(s)
    while rows > 1 and geometry + chunk_bytes(order, s, rows) > budget // 4:
        rows = -(-rows // 2)
    room = budget // 4 if order.by_point else min(WORKING_SET, budget // 4)  # each chunk of the former reads all that is lifted
    chunk = max(1, min(s.queries, room // (geometry + chunk_bytes(order, s, rows))))
    return -(-s.queries // -(-s.queries // chunk)), rows  # the same number of chunks, of nearly equal size


def _rows(order: Order, s: Sizes, budget: int) -> int:
    """All rows at once, unless what is lifted and its gradient, held for all points, would take over half the budget."""
    if not order.by_point:
        return s.rows
    return min(s.rows, budget // 2 // max(1, 2 * s.points * s.width * s.outputs * s.itemsize))


def check_budget(budget: int) -> int:
    """A number of bytes, as a user sets it."""
    if not isinstance(budget, int) or budget < 2**20:
        raise ConfigError(f"memory_budget: expected a whole number of bytes, at least 1 MiB = 1048576, got {budget!r}.")
    return budget
