"""Four orders of one contraction on a chunk of queries, y_qor = Σ_n Σ_h Σ_i features_qnh · filters_hio · x_{index(q,n)ir}.

Rows (batch × time) stand last, so that a neighbor is one contiguous block. Each order has a backward written beside it,
which gathers again instead of saving and adds what it finds to gradients of the whole cloud in place.

- `kernel`: matrices (q, n, i, o) first, then one product with the gathered neighbors; best where rows are many.
- `pool`:   features × neighbors first, then the filters; best where neighbors are many and rows few.
- `push`:   filters × all points first (z, by the caller); then one product per point for all queries that see it, and a sum
            over each query's neighbors. Nothing of size query × neighbor × channel is gathered; best with few outputs.
- `dense`:  z as before; then one product with the features spread over all points, zero where a query does not look. Nothing is
            gathered and nothing is summed apart; best where a query sees a good part of few points.
"""

from __future__ import annotations

import math
import threading
from typing import NamedTuple

import torch
from torch.nn.functional import embedding_bag

from calm_pde.types import Bool, Float, Int, Tensor

_PUSH_GROUPS = 8  # points are taken in groups of similar popularity, each padded to its most popular point


class Scratch(threading.local):
    """Buffers that chunk after chunk and step after step write to again: fresh memory costs more to map than to fill.

    They never hold more than the largest chunk did, and nothing that leaves a convolution lies in them.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def new(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """A tensor of this shape; what was last asked for under the name is overwritten."""
        size, key = math.prod(shape), (name, like.dtype, like.device)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < size:
            self._buffers.pop(key, None)
            buffer = self._buffers[key] = like.new_empty(size)
        return buffer[:size].view(shape)

    def clear(self) -> None:
        self._buffers.clear()


SCRATCH = Scratch()


def kernel_product(
    matrices: Float[Tensor, "query neighbor in out"],
    x: Float[Tensor, "point in row"],
    index: Int[Tensor, "query neighbor"],
    scratch: Scratch | None = None,
    out: Tensor | None = None,
) -> Float[Tensor, "query out row"]:
    return torch.bmm(_stacked(matrices).transpose(1, 2), _gathered(x, index, scratch), out=out)


def kernel_product_backward(
    matrices: Float[Tensor, "query neighbor in out"],
    x: Float[Tensor, "point in row"],
    index: Int[Tensor, "query neighbor"],
    grad: Float[Tensor, "query out row"],
    grad_x: Float[Tensor, "point in row"] | None,
    scratch: Scratch | None = None,
) -> Float[Tensor, "query neighbor in out"]:
    """The gradient of the matrices; that of x is added to `grad_x`."""
    gathered = _gathered(x, index, scratch)
    grad_matrices = torch.bmm(gathered, grad.transpose(1, 2)).view_as(matrices)
    if grad_x is not None:  # the gathered neighbors have served, so their gradient may take their place
        torch.bmm(_stacked(matrices), grad, out=gathered)
        grad_x.index_add_(0, index.flatten(), gathered.view(-1, *x.shape[1:]))
    return grad_matrices


def pool_product(
    features: Float[Tensor, "query neighbor hidden"],
    filters: Float[Tensor, "hidden in out"],
    x: Float[Tensor, "point in row"],
    index: Int[Tensor, "query neighbor"],
) -> Float[Tensor, "query out row"]:
    pooled = _pooled(features, x, index)
    y = pooled.flatten(0, 1) @ filters.flatten(0, 1)
    return y.view(len(index), -1, filters.shape[-1]).transpose(1, 2)


def pool_product_backward(
    features: Float[Tensor, "query neighbor hidden"],
    filters: Float[Tensor, "hidden in out"],
    x: Float[Tensor, "point in row"],
    index: Int[Tensor, "query neighbor"],
    grad: Float[Tensor, "query out row"],
    grad_x: Float[Tensor, "point in row"] | None,
    grad_filters: Float[Tensor, "hidden in out"],
) -> Float[Tensor, "query neighbor hidden"]:
    """The gradient of the features; those of x and the filters are added to `grad_x` and `grad_filters`."""
    by_row = grad.transpose(1, 2).reshape(-1, grad.shape[1])
    pooled = _pooled(features, x, index).flatten(0, 1)
    grad_filters.flatten(0, 1).addmm_(pooled.T, by_row)
    rows, hidden = x.shape[-1], features.shape[-1]
    grad_pooled = (by_row @ filters.flatten(0, 1).T).view(len(index), rows, hidden, -1).permute(0, 2, 3, 1).flatten(2)
    if grad_x is not None:
        grad_x.index_add_(0, index.flatten(), torch.bmm(features, grad_pooled).view(-1, *x.shape[1:]))
    return torch.bmm(_gathered(x, index).view(*index.shape, -1), grad_pooled.transpose(1, 2))


class PushPlan(NamedTuple):
    """Which (query, neighbor) pairs each point serves, and where the answer to each pair comes to lie."""

    groups: tuple[tuple[Tensor, Tensor], ...]
    """Per group the points (point) and the pairs they serve (point, slot); the pair behind the last fills empty slots."""
    position: Int[Tensor, "query neighbor"]
    """The place of each pair's answer; the place behind the last for padding."""
    num_slots: int


def push_plan(index: Int[Tensor, "query neighbor"], valid: Bool[Tensor, "query neighbor"]) -> PushPlan:
    if index.is_meta:
        return _typical_push_plan(index)
    pairs = valid.flatten().nonzero().squeeze(-1)
    point_of = index.flatten()[pairs]
    point_of, order = point_of.sort(stable=True)
    pairs = pairs[order]
    points, count = torch.unique_consecutive(point_of, return_counts=True)
    start = count.cumsum(0) - count
    by_count = count.argsort(descending=True, stable=True)
    position = torch.full((index.numel(),), -1, dtype=torch.int64, device=index.device)
    groups, total = [], 0
    for chosen in by_count.split(-(-len(points) // _PUSH_GROUPS)):
        slot = torch.arange(int(count[chosen[0]]), device=index.device)
        taken = slot < count[chosen, None]
        served = torch.where(taken, pairs[(start[chosen, None] + slot).clamp(max=len(pairs) - 1)], index.numel())
        place = torch.arange(total, total + served.numel(), device=index.device).view_as(served)
        position[served[taken]] = place[taken]
        groups.append((points[chosen], served))
        total += served.numel()
    position[position < 0] = total
    return PushPlan(tuple(groups), position.view_as(index), total)


def _typical_push_plan(index: Int[Tensor, "query neighbor"]) -> PushPlan:
    """The shapes of a plan where nothing but shapes is known: every query's own point, an eighth of padding."""
    slots = -(-index.numel() * 9 // 8 // _PUSH_GROUPS)
    group = (index.new_empty(1), index.new_empty(1, slots))
    return PushPlan((group,) * _PUSH_GROUPS, index, slots * _PUSH_GROUPS)


def push_product(
    features: Float[Tensor, "query neighbor hidden"],
    z: Float[Tensor, "point hidden column"],
    plan: PushPlan,
    scratch: Scratch | None = None,
) -> Float[Tensor, "query column"]:
    """Σ_n features_qn · z_{index(q,n)}, with columns = out × rows."""
    padded = _with_zero_row(features.flatten(0, 1))
    answers = (
        z.new_empty(plan.num_slots + 1, z.shape[-1])
        if scratch is None
        else scratch.new("answers", z, plan.num_slots + 1, z.shape[-1])
    )
    answers[-1] = 0
    done = 0
    for points, served in plan.groups:
        part = answers[done : done + served.numel()].view(*served.shape, -1)
        torch.bmm(padded[served], z.index_select(0, points), out=part)
        done += served.numel()
    return embedding_bag(plan.position, answers, mode="sum")


def push_product_backward(
    features: Float[Tensor, "query neighbor hidden"],
    z: Float[Tensor, "point hidden column"],
    plan: PushPlan,
    grad: Float[Tensor, "query column"],
    grad_z: Float[Tensor, "point hidden column"],
) -> Float[Tensor, "query neighbor hidden"]:
    """The gradient of the features; that of z is added to `grad_z`."""
    padded, grads = _with_zero_row(features.flatten(0, 1)), _with_zero_row(grad)
    grad_padded = torch.zeros_like(padded)
    for points, served in plan.groups:
        answer = grads[served // features.shape[1]]
        grad_padded[served] = torch.bmm(answer, z.index_select(0, points).transpose(1, 2))
        grad_z.index_add_(0, points, torch.bmm(padded[served].transpose(1, 2), answer))
    return grad_padded[:-1].view_as(features)


def dense_product(
    features: Float[Tensor, "query neighbor hidden"],
    z: Float[Tensor, "point hidden column"],
    index: Int[Tensor, "query neighbor"],
    out: Float[Tensor, "query column"],
) -> None:
    """The same sum as `push_product`."""
    torch.mm(_spread(features, index, len(z)), z.flatten(0, 1), out=out)


def dense_product_backward(
    features: Float[Tensor, "query neighbor hidden"],
    z: Float[Tensor, "point hidden column"],
    index: Int[Tensor, "query neighbor"],
    grad: Float[Tensor, "query column"],
    grad_z: Float[Tensor, "point hidden column"],
) -> Float[Tensor, "query neighbor hidden"]:
    """The gradient of the features; that of z is added to `grad_z`."""
    grad_z.flatten(0, 1).addmm_(_spread(features, index, len(z)).T, grad)
    grad_spread = torch.mm(grad, z.flatten(0, 1).T).view(len(index), len(z), -1)
    return grad_spread.gather(1, index[..., None].expand_as(features))


def _spread(features: Tensor, index: Tensor, num_points: int) -> Float[Tensor, "query column"]:
    """(query, point × hidden); padding has no features and adds nothing to the neighbor it repeats."""
    spread = features.new_zeros(len(index), num_points, features.shape[-1])
    return spread.scatter_add_(1, index[..., None].expand_as(features), features).flatten(1)


def _stacked(matrices: Tensor) -> Tensor:
    """(query, neighbor × in, out)."""
    return matrices.reshape(len(matrices), -1, matrices.shape[-1])


def _gathered(x: Tensor, index: Tensor, scratch: Scratch | None = None) -> Tensor:
    """(query, neighbor × in, row)."""
    out = None if scratch is None else scratch.new("gathered", x, index.numel(), *x.shape[1:])
    return torch.index_select(x, 0, index.flatten(), out=out).view(len(index), -1, x.shape[-1])


def _pooled(features: Tensor, x: Tensor, index: Tensor) -> Tensor:
    """Σ_n features_qnh · x_{index(q,n)ir} as (query, row, hidden × in)."""
    pooled = torch.bmm(features.transpose(1, 2), _gathered(x, index).view(*index.shape, -1))
    return pooled.view(*pooled.shape[:2], *x.shape[1:]).permute(0, 3, 1, 2).flatten(2)


def _with_zero_row(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_zeros(1, rows.shape[-1])])
