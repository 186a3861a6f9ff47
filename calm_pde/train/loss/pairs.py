"""Which points of a mesh are compared for the gradient of a field: near neighbors, found once per mesh."""

from __future__ import annotations

import numpy as np
import torch

from calm_pde.engine.receptive_fields import ContentCache, receptive_field
from calm_pde.geometry import squared_distances, wrap
from calm_pde.metrics.relative_h1 import Pairs
from calm_pde.types import Bool, Float, Int, Tensor

_CANDIDATES = 6  # per axis: neighbors looked at, so that ties and points that coincide leave enough of them
_ROUNDING = 4 * float(np.finfo(np.float32).eps)  # distances of coordinates in float32 are off by so much

_PAIRS = ContentCache(64 * 2**20)


def pairs_of(
    points: Float[Tensor, "*cloud point dim"], mask: Bool[Tensor, "batch point"] | None, periodic: tuple[bool, ...]
) -> list[Pairs]:
    """Of the one mesh that all samples share, or of each sample's own; masked points are in no pair."""
    if mask is None:
        return [mesh_pairs(cloud, periodic) for cloud in points.reshape(-1, *points.shape[-2:])]
    clouds = points.expand(len(mask), *points.shape[-2:])
    return [_padded(mesh_pairs(cloud[real], periodic), real) for cloud, real in zip(clouds, mask, strict=True)]


def mesh_pairs(points: Float[Tensor, "point dim"], periodic: tuple[bool, ...]) -> Pairs:
    """Each point and the 2·dim nearest ones elsewhere, with all that are as far as the last of them; weights are 1/distance².

    A pair of points that are neighbors of each other counts twice. Meshes that come again are known by their content.
    """

    def compute() -> tuple[int, Pairs]:
        found = _both_ways(points.double(), *_neighbors(points.double(), periodic), periodic)
        return 16 * found.indices.numel(), found

    return _PAIRS.get(f"{periodic}", (points,), compute)


def _neighbors(
    points: Float[Tensor, "point dim"], periodic: tuple[bool, ...]
) -> tuple[Int[Tensor, "pair"], Int[Tensor, "pair"]]:
    """Every point that has neighbors, and its neighbors."""
    count, dim = points.shape
    candidates = min(count, _CANDIDATES * dim + 1)
    percentile = (candidates - 0.5) / max(1, count - 1)
    field = receptive_field(points[None], points[None], percentile, periodic)
    index = field.indices[0]
    distance = squared_distances(wrap(points[:, None] - points[index], periodic)).sqrt()
    distance = distance.masked_fill(~field.valid[0] | (distance <= _ROUNDING), torch.inf)
    farthest = distance.kthvalue(min(2 * dim, candidates), dim=1, keepdim=True).values
    near = distance.isfinite() & (distance <= farthest + _ROUNDING)
    return near.nonzero()[:, 0], index[near]


def _both_ways(
    points: Float[Tensor, "point dim"],
    here: Int[Tensor, "pair"],
    there: Int[Tensor, "pair"],
    periodic: tuple[bool, ...],
) -> Pairs:
    """Pairs listed at both of their points, of which one may not have the other among its neighbors."""
    count = len(points)
    listed, times = torch.cat([here * count + there, there * count + here]).unique(return_counts=True)
    here, there = listed // count, listed % count
    degree = here.bincount(minlength=count)
    place = torch.arange(len(here), device=here.device) - (degree.cumsum(0) - degree)[here]
    indices = torch.zeros(count, int(degree.max()), dtype=torch.int64, device=here.device)
    weights = torch.zeros_like(indices, dtype=points.dtype)
    indices[here, place] = there
    weights[here, place] = times / squared_distances(wrap(points[here] - points[there], periodic))
    return Pairs(indices, weights)


def _padded(pairs: Pairs, real: Bool[Tensor, "point"]) -> Pairs:
    """Pairs of the real points as pairs of all points."""
    places, width = real.nonzero()[:, 0], pairs.indices.shape[1]
    indices, weights = pairs.indices.new_zeros(len(real), width), pairs.weights.new_zeros(len(real), width)
    indices[places], weights[places] = places[pairs.indices], pairs.weights
    return Pairs(indices, weights)
