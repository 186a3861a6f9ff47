"""Receptive fields: which input points each query sees. Found outside the differentiable graph, exact, in float64."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

from calm_pde.engine.transforms import bare, untransformed
from calm_pde.geometry import squared_distances, wrap
from calm_pde.types import Bool, Float, Int, Tensor

TIE_TOLERANCE = 1e-5
"""Points this close (relatively) to the farthest neighbor belong too, so that ties on a grid never depend on order."""

_DENSE_FRACTION = 0.25  # above this share of the cloud a tree visits nearly every point: plain distances are faster
_CHUNK_ENTRIES = 1 << 20  # (query, candidate) pairs looked at together
_PARALLEL_ENTRIES = 20_000  # fewer (query, candidate) pairs are searched in less time than threads take to start
_MISSES = 3  # candidates that were too few so often in a row are not kept any more
_SPARE = 2  # candidates beyond k that a tree is asked for at first


class Neighbors(NamedTuple):
    """The receptive field of every query: ascending point indices, padded at the end where `valid` is False.

    A padded place repeats the query's first neighbor, so that whatever is gathered there is finite.
    """

    indices: Int[Tensor, "cloud query neighbor"]
    valid: Bool[Tensor, "cloud query neighbor"]


class ContentCache:
    """What was computed from arrays, by their content; the least recently used go first beyond a number of bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries: OrderedDict[bytes, tuple[int, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, what: str, arrays: tuple[Tensor | None, ...], compute: Callable[[], tuple[int, Any]]) -> Any:
        """`compute` gives the number of bytes of its result, and the result."""
        digest = hashlib.blake2b(what.encode(), digest_size=16)
        for array in arrays:
            digest.update(b"none" if array is None else f"{array.dtype}{tuple(array.shape)}{array.device}".encode())
            if array is not None:
                digest.update(array.contiguous().cpu().view(torch.uint8).numpy().data)  # numpy has no bfloat16
        key = digest.digest()
        with self._lock:
            known = self.entries.get(key)
            if known is not None:
                self.entries.move_to_end(key)
                return known[1]
        size, result = compute()  # two threads may both compute it: better than that one waits for the other
        with self._lock:
            if size <= self.limit:
                self.entries[key] = (size, result)
            while sum(size for size, _ in self.entries.values()) > self.limit:
                self.entries.popitem(last=False)
        return result


TREES, FIELDS = ContentCache(128 * 2**20), ContentCache(128 * 2**20)


def neighborhood_size(percentile: float, num_points: int) -> int:
    """k = ⌊p·(N − 1)⌋ + 1, the points that the paper's ≤-percentile rule takes from a cloud of N."""
    return math.floor(percentile * (num_points - 1)) + 1


@torch.inference_mode(False)  # what is found may be kept, and serve a training step later
@torch.no_grad()
def receptive_field(
    points: Float[Tensor, "#cloud point dim"],
    queries: Float[Tensor, "#cloud query dim"],
    percentile: float,
    periodic: tuple[bool, ...],
    mask: Bool[Tensor, "#cloud point"] | None = None,
    still: bool = False,
    vicinity: Vicinity | None = None,
) -> Neighbors:
    """RF(a) = {α : ‖a − α‖ ≤ (1 + 1e-5)·d_k(a)} over the real points of each cloud, d_k the k-th nearest distance.

    `still` says that neither points nor queries are about to move: then the answer is kept and found again by content.
    Where they move a little from call to call, a `vicinity` saves most searches. Neither changes the answer. Transforms of
    torch.func do not see the search: it looks at plain numbers, and clouds that vmap runs over are refused.
    """
    if points.is_meta:  # without data, as many neighbors as there are without ties
        shape = (max(len(points), len(queries)), queries.shape[1], neighborhood_size(percentile, points.shape[1]))
        return Neighbors(queries.new_empty(shape, dtype=torch.int64), queries.new_empty(shape, dtype=torch.bool))
    with untransformed():
        mask = None if mask is None else bare("mask", mask)
        points, queries = bare("points", points), bare("queries", queries)
        if not still:
            return _found(points, queries, percentile, periodic, mask, vicinity)

        def compute() -> tuple[int, Neighbors]:
            found = _found(points, queries, percentile, periodic, mask, None)
            return 9 * found.indices.numel(), found

        return FIELDS.get(f"{percentile} {periodic}", (points, queries, mask), compute)


def _found(
    points: Float[Tensor, "#cloud point dim"],
    queries: Float[Tensor, "#cloud query dim"],
    percentile: float,
    periodic: tuple[bool, ...],
    mask: Bool[Tensor, "#cloud point"] | None,
    vicinity: Vicinity | None,
) -> Neighbors:
    """`receptive_field` of plain numbers, by a search."""
    num_clouds = max(len(points), len(queries))
    if vicinity is not None and num_clouds == 1 and mask is None:
        index, valid = vicinity.search(points[0].double(), queries[0].double(), percentile, periodic)
        return Neighbors(index[None], valid[None])
    if num_clouds > 1 and len(points) == 1 and mask is None:  # one cloud asked at many places: one search
        merged = _found(points, queries.flatten(0, 1)[None], percentile, periodic, None, None)
        shape = (num_clouds, queries.shape[1], -1)
        return Neighbors(merged.indices.view(shape), merged.valid.view(shape))
    found = []
    for cloud in range(num_clouds):
        cloud_points = points[cloud if len(points) > 1 else 0].double()
        cloud_queries = queries[cloud if len(queries) > 1 else 0].double()
        real = None if mask is None else mask[cloud if len(mask) > 1 else 0].nonzero().squeeze(-1)
        index, valid = _search(cloud_points if real is None else cloud_points[real], cloud_queries, percentile, periodic)
        found.append((index if real is None else real[index], valid))
    indices, valids = equally_wide(found)
    return Neighbors(torch.stack(indices), torch.stack(valids))


def _search(
    points: Float[Tensor, "point dim"],
    queries: Float[Tensor, "query dim"],
    percentile: float,
    periodic: tuple[bool, ...],
) -> tuple[Int[Tensor, "query neighbor"], Bool[Tensor, "query neighbor"]]:
    k = neighborhood_size(percentile, len(points))
    use_tree = points.device.type == "cpu" and k <= _DENSE_FRACTION * len(points)
    tree = tree_of(points, periodic) if use_tree else None
    chunk = max(1, _CHUNK_ENTRIES // (k + _SPARE if use_tree else len(points)))
    parts = []
    for some in queries.split(chunk):
        candidates = None if tree is None else _candidates(tree, some, k, periodic)
        chosen = points if candidates is None else points[candidates.clamp(max=len(points) - 1)]
        squared = squared_distances(wrap(some[:, None] - chosen, periodic))
        if candidates is not None:
            squared = squared.masked_fill(candidates == len(points), math.inf)
        reach = _squared_reach(squared, k)
        parts.append(_packed(squared <= reach, candidates))
    indices, valids = equally_wide(parts)
    return torch.cat(indices), torch.cat(valids)


def _squared_reach(squared: Float[Tensor, "query candidate"], k: int) -> Float[Tensor, "query 1"]:
    """How far each receptive field goes: to the k-th nearest, and a little for its ties."""
    return squared.kthvalue(k, dim=-1, keepdim=True).values * (1 + TIE_TOLERANCE) ** 2


class Vicinity:
    """More candidates than a receptive field needs, which serve as long as queries and points have not moved too far.

    A point that is not among a query's candidates was at least `radius` away, so after moves of at most δ and ε it is at least
    radius − δ − ε away. As long as that is beyond the receptive field, the candidates hold all of it.
    """

    def __init__(self) -> None:
        self._known: tuple[Tensor, Tensor, Tensor, Tensor] | None = None
        self._misses = 0

    def search(
        self,
        points: Float[Tensor, "point dim"],
        queries: Float[Tensor, "query dim"],
        percentile: float,
        periodic: tuple[bool, ...],
    ) -> tuple[Int[Tensor, "query neighbor"], Bool[Tensor, "query neighbor"]]:
        k = neighborhood_size(percentile, len(points))
        count = k + k // 4 + 8
        worth = (
            points.device.type == "cpu" and count <= _DENSE_FRACTION * len(points) and len(queries) * count <= _CHUNK_ENTRIES
        )
        if not worth or self._misses > _MISSES:
            return _search(points, queries, percentile, periodic)
        found = self._among_known(points, queries, k, periodic)
        if found is None:
            self._misses += 1
            distance, index = tree_of(points, periodic).query(
                into_box(queries, periodic), k=count, workers=_workers(len(queries) * count)
            )
            candidates = torch.from_numpy(np.sort(index, axis=-1))
            self._known = (points.clone(), queries.clone(), candidates, torch.from_numpy(distance[:, -1].copy()))
            found = self._among_known(points, queries, k, periodic)
            return _search(points, queries, percentile, periodic) if found is None else found
        self._misses = 0
        return found

    def _among_known(self, points: Tensor, queries: Tensor, k: int, periodic: tuple[bool, ...]) -> tuple[Tensor, Tensor] | None:
        """The receptive fields, if all of them are sure to lie among the candidates."""
        known = self._known  # another thread may replace it meanwhile
        if known is None or known[0].shape != points.shape or known[1].shape != queries.shape:
            return None
        old_points, old_queries, candidates, radius = known
        moved = squared_distances(wrap(queries - old_queries, periodic)).sqrt()
        drift = squared_distances(wrap(points - old_points, periodic)).max().sqrt()
        squared = squared_distances(wrap(queries[:, None] - points[candidates], periodic))
        reach = _squared_reach(squared, k)
        if not bool((reach[:, 0].sqrt() * (1 + TIE_TOLERANCE) < radius - moved - drift).all()):
            return None
        return _packed(squared <= reach, candidates)


def _workers(entries: int) -> int:
    return torch.get_num_threads() if entries >= _PARALLEL_ENTRIES else 1


def tree_of(points: Float[Tensor, "point dim"], periodic: tuple[bool, ...]) -> cKDTree:
    """Of points in float64 on a CPU, which is asked at places that are brought `into_box`; kept by their content."""

    def build() -> tuple[int, cKDTree]:
        box = np.asarray(periodic, dtype=float) if any(periodic) else None
        return 4 * points.numel() * 8, cKDTree(into_box(points, periodic), boxsize=box)

    return TREES.get(f"{periodic}", (points,), build)


def into_box(points: Float[Tensor, "point dim"], periodic: tuple[bool, ...]) -> np.ndarray:
    """Coordinates as the tree wants them: periodic axes in [0, 1). The result only proposes candidates."""
    coordinates = points.numpy().copy()
    wrapped = np.mod(coordinates[:, periodic], 1.0)
    wrapped[wrapped >= 1.0] = 0.0  # the remainder of a tiny negative number rounds to the period itself
    coordinates[:, periodic] = wrapped
    return coordinates


def _candidates(
    tree: cKDTree, queries: Float[Tensor, "query dim"], k: int, periodic: tuple[bool, ...]
) -> Int[Tensor, "query candidate"]:
    """At least every point of each receptive field, in ascending index, padded with the number of points.

    A query is asked again for twice as many until its last candidate is out of reach.
    """
    places = into_box(queries, periodic)
    count = min(tree.n, k + _SPARE)
    found = np.empty((len(places), 0), dtype=np.int64)
    open_rows = np.arange(len(places))
    while True:
        workers = _workers(len(open_rows) * count)
        distance, index = tree.query(places[open_rows], k=np.arange(1, count + 1), workers=workers)
        found = np.pad(found, ((0, 0), (0, count - found.shape[1])), constant_values=tree.n)
        found[open_rows] = index
        open_rows = open_rows[distance[:, -1] <= (1 + 2 * TIE_TOLERANCE) * distance[:, k - 1]]
        if count == tree.n or not len(open_rows):
            return torch.from_numpy(np.sort(found, axis=-1))
        count = min(tree.n, 2 * count)


def _packed(
    member: Bool[Tensor, "query candidate"], candidates: Int[Tensor, "query candidate"] | None
) -> tuple[Int[Tensor, "query neighbor"], Bool[Tensor, "query neighbor"]]:
    """Members moved to the front in their order; `candidates` None means that every point stands in its own column."""
    count = member.sum(dim=-1)
    query, column = member.nonzero(as_tuple=True)
    place = torch.arange(len(query), device=member.device) - (count.cumsum(0) - count)[query]
    chosen = column if candidates is None else candidates[query, column]
    valid = torch.arange(int(count.max()), device=member.device) < count[:, None]
    index = torch.zeros(valid.shape, dtype=torch.int64, device=member.device)
    index[query, place] = chosen
    return torch.where(valid, index, index[:, :1]), valid


def equally_wide(parts: list[tuple[Tensor, Tensor]]) -> tuple[list[Tensor], list[Tensor]]:
    """Each (index, valid) padded to the widest neighborhood among them."""
    width = max(index.shape[-1] for index, _ in parts)
    indices = [torch.cat([index, index[:, :1].expand(-1, width - index.shape[-1])], dim=-1) for index, _ in parts]
    return indices, [torch.nn.functional.pad(valid, (0, width - valid.shape[-1])) for _, valid in parts]
