"""The cost model: which order of contraction a layer takes, and in which chunks, from shapes, config and budget alone.

docs/engine.md derives the formulas. Nothing here reads the machine's state, so the same seed gives the same bits.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from calm_pde.errors import ConfigError

Order = Literal["kernel", "pool", "push"]

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


def cost(order: Order, s: Sizes) -> int:
    """Floating-point operations of the forward pass, plus bytes moved in units of operations."""
    pairs, hidden = s.queries * s.neighbors, s.hidden or 0
    if order == "kernel":
        flops = 2 * pairs * s.inputs * s.outputs * (s.rows + (0 if s.frozen else hidden))
        moved = pairs * s.inputs * (s.outputs + 2 * s.rows)
    elif order == "pool":
        flops = 2 * s.queries * hidden * s.inputs * s.rows * (s.neighbors + s.outputs)
        moved = 2 * pairs * s.inputs * s.rows + 3 * s.queries * hidden * s.inputs * s.rows
    else:
        flops = 2 * hidden * s.outputs * s.rows * (s.points * s.inputs + pairs)
        moved = 3 * s.points * hidden * s.outputs * s.rows + 3 * pairs * s.outputs * s.rows
    return flops + FLOPS_PER_BYTE * s.itemsize * moved


def chunk_bytes(order: Order, s: Sizes, rows: int) -> int:
    """Bytes that one query of a chunk holds at the most, backward included: its geometry, and the product or the MLP."""
    hidden = s.hidden or 0
    geometry = 0 if s.frozen else 12 * s.neighbors * (hidden + 2)
    if order == "kernel":
        product = 2 * s.neighbors * s.inputs * (s.outputs + rows)
    elif order == "pool":
        product = 2 * s.neighbors * s.inputs * rows + 3 * hidden * s.inputs * rows
    else:
        product = 2 * s.neighbors * s.outputs * rows
    tail = 14 * s.outputs * rows if s.tail else 0
    return s.itemsize * (geometry + 2 * s.outputs * rows + max(product, tail))


def plan(s: Sizes, budget: int) -> Plan:
    """The cheapest order that fits, in chunks that stay within the budget."""
    orders: list[Order] = ["kernel"] if s.hidden is None else ["kernel", "pool", "push"]
    orders = [order for order in orders if _rows(order, s, budget) >= 1]
    matrices = s.queries * s.neighbors * s.inputs * s.outputs * s.itemsize
    if s.frozen and s.hidden is not None and matrices > budget:
        orders.remove("kernel")
    order = min(orders, key=lambda order: cost(order, s))
    rows, room = _rows(order, s, budget), min(WORKING_SET, budget // 4)
    while rows > 1 and chunk_bytes(order, s, rows) > budget // 4:
        rows = -(-rows // 2)
    chunk = max(1, min(s.queries, room // chunk_bytes(order, s, rows)))
    chunk = -(-s.queries // -(-s.queries // chunk))  # the same number of chunks, of nearly equal size
    keep = s.queries * s.outputs * s.rows * s.itemsize <= budget // 4
    return Plan(order, chunk, rows, keep)


def _rows(order: Order, s: Sizes, budget: int) -> int:
    """All rows at once, unless z and its gradient, which `push` holds for all points, would take more than half the budget."""
    if order != "push":
        return s.rows
    return min(s.rows, budget // 2 // max(1, 2 * s.points * (s.hidden or 0) * s.outputs * s.itemsize))


def check_budget(budget: int) -> int:
    """A number of bytes, as a user sets it."""
    if not isinstance(budget, int) or budget < 2**20:
        raise ConfigError(f"memory_budget: expected a whole number of bytes, at least 1 MiB = 1048576, got {budget!r}.")
    return budget
