"""Which (query, neighbor) pairs each point serves, in groups of points of similar popularity."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from calm_pde.engine.orders.products import chosen_rows
from calm_pde.types import Bool, Float, Int, Tensor

_GROUPS = 8  # points are taken in groups of similar popularity, each padded to its most popular point
_FEW_POINTS = 32  # so many are taken one by one, which needs neither padding nor a copy of what is lifted


class Group(NamedTuple):
    """Points that are taken together, with as many slots each as the most popular of them serves pairs."""

    points: Int[Tensor, "point"] | int
    pairs: Int[Tensor, "point slot"]
    """What they serve; any pair in empty slots, whose answers nobody reads."""
    queries: Int[Tensor, "point slot"]
    """Whose pairs they are; the query behind the last in empty slots."""


class PointPairs(NamedTuple):
    """Which (query, neighbor) pairs each point serves, and where the answer to each pair comes to lie."""

    groups: tuple[Group, ...]
    position: Int[Tensor, "query neighbor"]
    """The place of each pair's answer; the place behind the last for padding."""
    num_slots: int
    packed: tuple[Tensor, ...] | None = None
    """The features of the pairs of each group (point, slot, hidden), where they are frozen."""

    def with_features(self, features: Float[Tensor, "query neighbor hidden"]) -> PointPairs:
        return self._replace(packed=tuple(self.of_pairs(features)))

    def of_pairs(self, features: Float[Tensor, "query neighbor hidden"]) -> Iterator[Float[Tensor, "point slot hidden"]]:
        return (chosen_rows(features.flatten(0, 1), group.pairs) for group in self.groups)


def point_pairs(index: Int[Tensor, "query neighbor"], valid: Bool[Tensor, "query neighbor"]) -> PointPairs:
    if index.is_meta:
        return _typical_pairs(index)
    pairs = valid.flatten().nonzero().squeeze(-1)
    point_of, order = index.flatten()[pairs].sort(stable=True)
    pairs = pairs[order]
    points, rank, count = torch.unique_consecutive(point_of, return_inverse=True, return_counts=True)
    by_count = count.argsort(descending=True, stable=True)
    together = 1 if len(points) <= _FEW_POINTS else -(-len(points) // _GROUPS)
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
        groups.append(Group(chosen if together > 1 else int(chosen), pairs, queries))
    return PointPairs(tuple(groups), position.view_as(index), total)


def _typical_pairs(index: Int[Tensor, "query neighbor"]) -> PointPairs:
    """Their shapes where nothing but shapes is known: every query's own point, an eighth of padding."""
    slots = -(-index.numel() * 9 // 8 // _GROUPS)
    group = Group(index.new_empty(1), index.new_empty(1, slots), index.new_empty(1, slots))
    return PointPairs((group,) * _GROUPS, index, slots * _GROUPS)
