"""Four orders of one contraction on a chunk of queries, y_qro = Σ_n Σ_h Σ_i features_qnh · filters_hio · x_{index(q,n)ri}.

Channels stand last and rows (batch × time) before them, so that a neighbor is one contiguous block and every product with the
filters is one plain matrix product. Each order has a backward written beside it, which gathers again instead of saving and adds
what it finds to gradients of the whole cloud in place.

- `kernel`: matrices (n, q, i, o) first, then a product with one gathered neighbor of all queries at a time; best for many rows.
- `pool`:   features × neighbors first, then the filters; best where neighbors are many and rows few.
- `push`:   filters × all points first (z, by `filtered`); then one product per point for all queries that see it, and a sum
            over each query's neighbors. Nothing of size query × neighbor × channel is gathered; best with few outputs.
- `dense`:  z as before; then one product with the features spread over all points, zero where a query does not look. Nothing is
            gathered and nothing is summed apart; best where a query sees a good part of few points.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch.nn.functional import embedding_bag

from calm_pde.engine.buffers import POOL, Scratch
from calm_pde.types import Bool, Float, Int, Tensor

_PUSH_GROUPS = 8  # points are taken in groups of similar popularity, each padded to its most popular point
_PAGE, _LINE = 4096, 64  # bytes
_FEW_POINTS = 32  # so many are taken one by one, which needs neither padding nor a copy of z


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a @ b, for matrices or batches of them; a total in a wider type than theirs takes the product as it comes."""
    if total.dtype != a.dtype:
        total += a @ b
    elif a.ndim == 2:
        total.addmm_(a, b)
    else:
        total.baddbmm_(a, b)


def write_product(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """out = a @ b, for matrices or batches of them, where little is summed into an `out` that no cache holds.

    Zeros first: they fetch the memory at full speed, which a product that writes a little here and there does not.
    """
    return out.zero_().addmm_(a, b) if a.ndim == 2 else out.zero_().baddbmm_(a, b)


def kernel_matrices(
    features: Float[Tensor, "query neighbor hidden"], filters: Float[Tensor, "hidden in out"], scratch: Scratch | None = None
) -> Float[Tensor, "neighbor query in out"]:
    """features · filters, with each neighbor's matrices of all queries together."""
    by_neighbor = features.transpose(0, 1).flatten(0, 1)
    size = (len(by_neighbor), filters[0].numel())
    out = features.new_empty(size) if scratch is None else scratch.new("matrices", features, *size)
    return write_product(out, by_neighbor, filters.flatten(1)).view(features.shape[1], features.shape[0], *filters.shape[1:])


def kernel_matrices_backward(
    features: Float[Tensor, "query neighbor hidden"],
    filters: Float[Tensor, "hidden in out"],
    grad_matrices: Float[Tensor, "neighbor query in out"],
    grad_filters: Float[Tensor, "hidden in out"],
) -> Float[Tensor, "query neighbor hidden"]:
    """The gradient of the features; that of the filters is added to `grad_filters`."""
    flat = grad_matrices.flatten(2).flatten(0, 1)
    add_product(grad_filters.flatten(1), features.transpose(0, 1).flatten(0, 1).T, flat)
    return (flat @ filters.flatten(1).T).view(*grad_matrices.shape[:2], -1).transpose(0, 1)


def kernel_product(
    matrices: Float[Tensor, "neighbor query in out"],
    x: Float[Tensor, "point row in"],
    index: Int[Tensor, "query neighbor"],
    out: Float[Tensor, "query row out"],
    scratch: Scratch,
) -> None:
    near = scratch.new("gathered", x, len(index), *x.shape[1:])
    for rank, chosen in enumerate(index.unbind(dim=1)):
        torch.index_select(x, 0, chosen, out=near)
        if rank == 0:
            torch.bmm(near, matrices[rank], out=out)
        else:
            out.baddbmm_(near, matrices[rank])


def kernel_product_backward(
    matrices: Float[Tensor, "neighbor query in out"],
    x: Float[Tensor, "point row in"],
    index: Int[Tensor, "query neighbor"],
    grad: Float[Tensor, "query row out"],
    grad_x: Float[Tensor, "point row in"] | None,
    scratch: Scratch,
) -> Float[Tensor, "neighbor query in out"]:
    """The gradient of the matrices; that of x is added to `grad_x`."""
    near = scratch.new("gathered", x, len(index), *x.shape[1:])
    grad_matrices = scratch.new("grad matrices", matrices, *matrices.shape)
    for rank, chosen in enumerate(index.unbind(dim=1)):
        torch.index_select(x, 0, chosen, out=near)
        torch.bmm(near.transpose(1, 2), grad, out=grad_matrices[rank])
        if grad_x is not None:  # the gathered neighbors have served, so their gradient may take their place
            torch.bmm(grad, matrices[rank].transpose(1, 2), out=near)
            grad_x.index_add_(0, chosen, near)
    return grad_matrices


def pool_product(
    features: Float[Tensor, "query neighbor hidden"],
    filters: Float[Tensor, "hidden in out"],
    x: Float[Tensor, "point row in"],
    index: Int[Tensor, "query neighbor"],
    out: Float[Tensor, "query row out"],
) -> None:
    torch.mm(_pooled(features, _gathered(x, index), x), filters.flatten(0, 1), out=out.flatten(0, 1))


def pool_product_backward(
    features: Float[Tensor, "query neighbor hidden"],
    filters: Float[Tensor, "hidden in out"],
    x: Float[Tensor, "point row in"],
    index: Int[Tensor, "query neighbor"],
    grad: Float[Tensor, "query row out"],
    grad_x: Float[Tensor, "point row in"] | None,
    grad_filters: Float[Tensor, "hidden in out"],
) -> Float[Tensor, "query neighbor hidden"]:
    """The gradient of the features; those of x and the filters are added to `grad_x` and `grad_filters`."""
    gathered, by_row = _gathered(x, index), grad.flatten(0, 1)
    add_product(grad_filters.flatten(0, 1), _pooled(features, gathered, x).T, by_row)
    grad_pooled = (by_row @ filters.flatten(0, 1).T).view(len(index), x.shape[1], features.shape[-1], -1)
    grad_pooled = grad_pooled.transpose(1, 2).flatten(2)
    if grad_x is not None:
        grad_x.index_add_(0, index.flatten(), torch.bmm(features, grad_pooled).view(-1, *x.shape[1:]))
    return torch.bmm(gathered, grad_pooled.transpose(1, 2))


def filtered(
    x: Float[Tensor, "point row in"], filters: Float[Tensor, "hidden in out"], scratch: Scratch, kept: bool
) -> Float[Tensor, "point hidden column"]:
    """z = filters · x at every point, with columns = rows × out; in memory of its own where it is to be kept."""
    (points, rows, _), (hidden, _, outputs) = x.shape, filters.shape
    columns = rows * outputs
    shape = (points, hidden, _apart(columns, x.itemsize))
    z = (POOL.new(x, *shape) if kept else scratch.new("z", x, *shape))[..., :columns]
    if outputs == 1:  # then a column is a row, and nothing has to be turned
        return torch.bmm(filters.squeeze(-1).expand(points, -1, -1), x.transpose(1, 2), out=z)
    by_row = scratch.new("z by row", x, points * rows, hidden * outputs)
    torch.mm(x.flatten(0, 1), filters.transpose(0, 1).flatten(1), out=by_row)
    z.view(points, hidden, rows, outputs).copy_(by_row.view(points, rows, hidden, outputs).transpose(1, 2))
    return z


def room_for_gradient(z: Float[Tensor, "point hidden column"], scratch: Scratch) -> Float[Tensor, "point hidden column"]:
    """Laid out as z is."""
    return scratch.new("grad z", z, *z.shape[:2], z.stride(1))[..., : z.shape[2]]


def filtered_backward(
    x: Float[Tensor, "point row in"],
    filters: Float[Tensor, "hidden in out"],
    grad_z: Float[Tensor, "point hidden column"],
    grad_filters: Float[Tensor, "hidden in out"],
    scratch: Scratch,
) -> Float[Tensor, "point row in"]:
    """The gradient of x; that of the filters is added to `grad_filters`."""
    (points, rows, _), (hidden, inputs, outputs) = x.shape, filters.shape
    if outputs == 1:
        grad_filters += torch.bmm(grad_z, x).sum(dim=0)[..., None]
        return torch.bmm(grad_z.transpose(1, 2), filters.squeeze(-1).expand(points, -1, -1), out=POOL.new(x, *x.shape))
    by_row = scratch.new("z by row", x, points, rows, hidden, outputs)
    by_row.copy_(grad_z.view(points, hidden, rows, outputs).transpose(1, 2))
    flat = by_row.view(points * rows, -1)
    grad_filters += (flat.T @ x.flatten(0, 1)).view(hidden, outputs, inputs).transpose(1, 2)
    return torch.mm(flat, filters.transpose(0, 1).flatten(1).T, out=POOL.new(x, points * rows, inputs)).view_as(x)


class PushGroup(NamedTuple):
    """Points that are taken together, with as many slots each as the most popular of them serves pairs."""

    points: Int[Tensor, "point"] | int
    pairs: Int[Tensor, "point slot"]
    """What they serve; any pair in empty slots, whose answers nobody reads."""
    queries: Int[Tensor, "point slot"]
    """Whose pairs they are; the query behind the last in empty slots."""


class PushPlan(NamedTuple):
    """Which (query, neighbor) pairs each point serves, and where the answer to each pair comes to lie."""

    groups: tuple[PushGroup, ...]
    position: Int[Tensor, "query neighbor"]
    """The place of each pair's answer; the place behind the last for padding."""
    num_slots: int
    packed: tuple[Tensor, ...] | None = None
    """The features of the pairs of each group (point, slot, hidden), where they are frozen."""

    def with_features(self, features: Float[Tensor, "query neighbor hidden"]) -> PushPlan:
        return self._replace(packed=tuple(self.of_pairs(features)))

    def of_pairs(self, features: Float[Tensor, "query neighbor hidden"]) -> Iterator[Float[Tensor, "point slot hidden"]]:
        return (_rows(features.flatten(0, 1), group.pairs) for group in self.groups)


def push_plan(index: Int[Tensor, "query neighbor"], valid: Bool[Tensor, "query neighbor"]) -> PushPlan:
    if index.is_meta:
        return _typical_push_plan(index)
    pairs = valid.flatten().nonzero().squeeze(-1)
    point_of, order = index.flatten()[pairs].sort(stable=True)
    pairs = pairs[order]
    points, rank, count = torch.unique_consecutive(point_of, return_inverse=True, return_counts=True)
    by_count = count.argsort(descending=True, stable=True)
    together = 1 if len(points) <= _FEW_POINTS else -(-len(points) // _PUSH_GROUPS)
    widths = count[by_count[::together]]
    slots = widths.repeat_interleave(together)[: len(points)]
    total = int(slots.sum())
    first_slot = torch.empty_like(slots).index_copy_(0, by_count, slots.cumsum(0) - slots)
    first_pair = count.cumsum(0) - count
    place = torch.arange(len(pairs), device=index.device) + (first_slot - first_pair)[rank]
    position = index.new_full((index.numel(),), total).index_copy_(0, pairs, place)
    served = index.new_full((total,), index.numel()).index_copy_(0, place, pairs)
    members = points[by_count].split(together)
    parts = served.split([len(chosen) * width for chosen, width in zip(members, widths.tolist(), strict=True)])
    groups = []
    for chosen, part in zip(members, parts, strict=True):
        part = part.view(len(chosen), -1)
        pairs, queries = part.clamp(max=index.numel() - 1), part // index.shape[1]
        groups.append(PushGroup(chosen if together > 1 else int(chosen), pairs, queries))
    return PushPlan(tuple(groups), position.view_as(index), total)


def _typical_push_plan(index: Int[Tensor, "query neighbor"]) -> PushPlan:
    """The shapes of a plan where nothing but shapes is known: every query's own point, an eighth of padding."""
    slots = -(-index.numel() * 9 // 8 // _PUSH_GROUPS)
    group = PushGroup(index.new_empty(1), index.new_empty(1, slots), index.new_empty(1, slots))
    return PushPlan((group,) * _PUSH_GROUPS, index, slots * _PUSH_GROUPS)


def push_product(
    features: Float[Tensor, "query neighbor hidden"],
    z: Float[Tensor, "point hidden column"],
    plan: PushPlan,
    scratch: Scratch,
) -> Float[Tensor, "query column"]:
    """Σ_n features_qn · z_{index(q,n)}, with columns = rows × out."""
    columns = z.shape[-1]
    answers = scratch.new("answers", z, plan.num_slots + 1, _apart(columns, z.itemsize))
    answers[-1] = 0
    done = 0
    for group, pairs in zip(plan.groups, plan.packed or plan.of_pairs(features), strict=True):
        part = answers[done : done + group.pairs.numel(), :columns].unflatten(0, group.pairs.shape)
        if isinstance(group.points, int):
            write_product(part[0], pairs[0].to(z.dtype), z[group.points])
        else:
            write_product(part, pairs.to(z.dtype), z.index_select(0, group.points))
        done += group.pairs.numel()
    return embedding_bag(plan.position, answers, mode="sum")[:, :columns]


def push_product_backward(
    features: Float[Tensor, "query neighbor hidden"],
    z: Float[Tensor, "point hidden column"],
    plan: PushPlan,
    grad: Float[Tensor, "query column"],
    grad_z: Float[Tensor, "point hidden column"],
    scratch: Scratch,
) -> Float[Tensor, "query neighbor hidden"]:
    """The gradient of the features; that of z is added to `grad_z`."""
    columns, flat = grad.shape[-1], features.flatten(0, 1)
    grads = scratch.new("answers", grad, len(grad) + 1, _apart(columns, grad.itemsize))
    grads[:-1, :columns] = grad
    grads[-1] = 0
    grad_pairs = scratch.new("grad pairs", flat, plan.num_slots + 1, flat.shape[1])
    grad_pairs[-1] = 0
    done = 0
    for points, pairs, queries in plan.groups:
        answer, given = _rows(grads, queries)[..., :columns], _rows(flat, pairs).transpose(1, 2)
        part = grad_pairs[done : done + pairs.numel()].unflatten(0, pairs.shape)
        if isinstance(points, int):
            torch.mm(answer[0], z[points].T, out=part[0])
            grad_z[points].addmm_(given[0], answer[0])
        else:
            torch.bmm(answer, z.index_select(0, points).transpose(1, 2), out=part)
            grad_z.index_add_(0, points, torch.bmm(given, answer))
        done += pairs.numel()
    return _rows(grad_pairs, plan.position)


def spread(
    features: Float[Tensor, "query neighbor hidden"], index: Int[Tensor, "query neighbor"], num_points: int
) -> Float[Tensor, "query column"]:
    """(query, point × hidden); padding has no features and adds nothing to the neighbor it repeats."""
    wide = features.new_zeros(len(index), num_points, features.shape[-1])
    return wide.scatter_add_(1, index[..., None].expand_as(features), features).flatten(1)


def dense_product(
    spread_features: Float[Tensor, "query width"], z: Float[Tensor, "point hidden column"], out: Float[Tensor, "query column"]
) -> None:
    """The same sum as `push_product`."""
    torch.mm(spread_features, z.flatten(0, 1), out=out)


def dense_product_backward(
    features: Float[Tensor, "query neighbor hidden"],
    z: Float[Tensor, "point hidden column"],
    index: Int[Tensor, "query neighbor"],
    grad: Float[Tensor, "query column"],
    grad_z: Float[Tensor, "point hidden column"],
) -> Float[Tensor, "query neighbor hidden"]:
    """The gradient of the features; that of z is added to `grad_z`."""
    grad_z.flatten(0, 1).addmm_(spread(features, index, len(z)).T, grad)
    grad_spread = torch.mm(grad, z.flatten(0, 1).T).view(len(index), len(z), -1)
    return grad_spread.gather(1, index[..., None].expand_as(features))


def _apart(columns: int, itemsize: int) -> int:
    """Numbers from one row to the next, so that not all rows begin at the same place of a page, and thus of the cache."""
    return columns + _LINE // itemsize if columns * itemsize % _PAGE == 0 else columns


def _gathered(x: Tensor, index: Tensor) -> Float[Tensor, "query neighbor column"]:
    return x.flatten(1).index_select(0, index.flatten()).view(*index.shape, -1)


def _pooled(features: Tensor, gathered: Tensor, x: Tensor) -> Float[Tensor, "query_row column"]:
    """Σ_n features_qnh · x_{index(q,n)ri} as (query × row, hidden × in)."""
    pooled = torch.bmm(features.transpose(1, 2), gathered).unflatten(2, x.shape[1:])
    return pooled.transpose(1, 2).flatten(2).flatten(0, 1)


def _rows(rows: Tensor, index: Tensor) -> Tensor:
    """rows[index], as a copy of whole rows."""
    return rows.index_select(0, index.flatten()).view(*index.shape, -1)
