"""The cost model: which order of contraction a layer takes, and in which chunks, from shapes, config and budget alone.

docs/engine.md derives the formulas. Nothing here reads the machine's state, so the same seed gives the same bits.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from calm_pde.errors import ConfigError

Order = Literal["kernel", "pool", "push", "dense"]

BY_POINT: tuple[Order, ...] = ("push", "dense")
"""The orders in which the filters meet the features of every point first (z), before any neighbor is looked at."""

DEFAULT_BUDGET = 512 * 2**20
"""Bytes a layer may hold beside its inputs and outputs, unless told otherwise."""

WORKING_SET = 32 * 2**20  # a chunk is made to stay in the cache and to reuse memory that is already mapped
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
    keep_z: bool = False
    """The same for z, in the orders that begin with it."""

    @property
    def by_point(self) -> bool:
        return self.order in BY_POINT


def cost(order: Order, s: Sizes, chunk: int) -> int:
    """Floating-point operations of the forward pass, plus bytes moved in units of operations."""
    pairs, hidden = s.queries * s.neighbors, s.hidden or 0
    z = hidden * s.outputs * s.rows  # of one point, in the orders that begin with the filters
    if order == "kernel":
        flops = 2 * pairs * s.inputs * s.outputs * (s.rows + (0 if s.frozen else hidden))
        moved = pairs * s.inputs * (s.outputs + 2 * s.rows)
    elif order == "pool":
        flops = 2 * s.queries * hidden * s.inputs * s.rows * (s.neighbors + s.outputs)
        moved = 2 * pairs * s.inputs * s.rows + 3 * s.queries * hidden * s.inputs * s.rows
    elif order == "push":
        flops = 2 * z * (s.points * s.inputs + pairs)
        gathered = min(pairs, s.points * -(-s.queries // chunk))  # each chunk takes out the points that it sees
        moved = z * (s.points + 2 * gathered) + 3 * pairs * s.outputs * s.rows
    else:
        flops = 2 * z * s.points * (s.inputs + s.queries)
        moved = 3 * z * s.points + 2 * s.queries * s.points * hidden
    return flops + FLOPS_PER_BYTE * s.itemsize * moved


def geometry_bytes(s: Sizes) -> int:
    """Bytes that the geometry of one query takes with all that its backward needs."""
    return 0 if s.frozen else 12 * s.neighbors * ((s.hidden or 0) + 2) * s.itemsize


def chunk_bytes(order: Order, s: Sizes, rows: int) -> int:
    """Bytes that one query of a chunk holds at the most, backward included: the product or the MLP."""
    hidden = s.hidden or 0
    if order == "kernel":
        product = 2 * s.neighbors * s.inputs * (s.outputs + rows)
    elif order == "pool":
        product = 2 * s.neighbors * s.inputs * rows + 3 * hidden * s.inputs * rows
    elif order == "push":
        product = 2 * s.neighbors * s.outputs * rows
    else:
        product = 2 * s.points * hidden
    tail = 14 * s.outputs * rows if s.tail else 0
    return s.itemsize * (2 * s.outputs * rows + max(product, tail))


def keeps_geometry(s: Sizes, budget: int) -> bool:
    """Whether the geometry of all queries fits; else a chunk holds its own."""
    return s.hidden is not None and s.queries * geometry_bytes(s) <= budget // 4


def plan(s: Sizes, budget: int) -> Plan:
    """The cheapest order that fits, in chunks that stay within the budget; what is kept takes a quarter of it at most."""
    orders: list[Order] = ["kernel"] if s.hidden is None else ["kernel", "pool", "push", "dense"]
    orders = [order for order in orders if _rows(order, s, budget) >= 1]
    matrices = s.queries * s.neighbors * s.inputs * s.outputs * s.itemsize
    if s.frozen and s.hidden is not None and matrices > budget:
        orders.remove("kernel")
    chunks = {order: _chunk(order, s, budget) for order in orders}
    order = min(orders, key=lambda order: cost(order, s, chunks[order][0]))
    chunk, rows = chunks[order]
    room = budget // 4
    keep = s.queries * s.outputs * s.rows * s.itemsize <= room
    keep_hidden = s.tail and rows == s.rows and 4 * s.queries * s.outputs * s.rows * s.itemsize <= room
    keep_geometry = not s.frozen and keeps_geometry(s, budget)
    z = s.points * (s.hidden or 0) * s.outputs * s.rows * s.itemsize
    keep_z = order in BY_POINT and rows == s.rows and z <= room
    return Plan(order, chunk, rows, keep, keep_hidden, keep_geometry, keep_z)


def _chunk(order: Order, s: Sizes, budget: int) -> tuple[int, int]:
    """Queries and rows that are taken together."""
    rows, geometry = _rows(order, s, budget), 0 if keeps_geometry(s, budget) else geometry_bytes(s)
    while rows > 1 and geometry + chunk_bytes(order, s, rows) > budget // 4:
        rows = -(-rows // 2)
    room = budget // 4 if order in BY_POINT else min(WORKING_SET, budget // 4)  # each chunk of the former reads all of z
    chunk = max(1, min(s.queries, room // (geometry + chunk_bytes(order, s, rows))))
    return -(-s.queries // -(-s.queries // chunk)), rows  # the same number of chunks, of nearly equal size


def _rows(order: Order, s: Sizes, budget: int) -> int:
    """All rows at once, unless z and its gradient, which some orders hold for all points, would take over half the budget."""
    if order not in BY_POINT:
        return s.rows
    return min(s.rows, budget // 2 // max(1, 2 * s.points * (s.hidden or 0) * s.outputs * s.itemsize))


def check_budget(budget: int) -> int:
    """A number of bytes, as a user sets it."""
    if not isinstance(budget, int) or budget < 2**20:
        raise ConfigError(f"memory_budget: expected a whole number of bytes, at least 1 MiB = 1048576, got {budget!r}.")
    return budget
