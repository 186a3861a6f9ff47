"""Which points are near which places: pairs within a radius, found outside the differentiable graph and kept by content."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from calm_pde.engine.receptive_fields import TIE_TOLERANCE, ContentCache, into_box, tree_of
from calm_pde.engine.transforms import bare, untransformed
from calm_pde.geometry import squared_distances, wrap
from calm_pde.nn.segments import Segments
from calm_pde.types import Bool, Float, Tensor

KEPT = ContentCache(128 * 2**20)


class Neighborhoods(NamedTuple):
    """Pairs of a point and a place near it, over all clouds: place by place, and the points of each in ascending order.

    Args:
        points: the point of each pair, and the pairs of each point, those of all clouds one behind the other.
        places: the same for the places.
    """

    points: Segments
    places: Segments
    clouds: int

    def displacements(
        self, points: Float[Tensor, "#cloud point dim"], places: Float[Tensor, "#cloud place dim"], periodic: tuple[bool, ...]
    ) -> Float[Tensor, "pair dim"]:
        """y − x of the point y and the place x of each pair, across periodic axes."""
        y, x = (where.expand(self.clouds, -1, -1).flatten(0, 1) for where in (points, places))
        return wrap(self.points.spread(y) - self.places.spread(x), periodic)

    def by_points(self, x: Float[Tensor, "batch point channel"]) -> Float[Tensor, "place row channel"]:
        """What stands at all points (or places) of all clouds: a row for each sample of a cloud."""
        return x.unflatten(0, (self.clouds, -1)).transpose(1, 2).flatten(0, 1)

    def by_samples(self, x: Float[Tensor, "place row channel"]) -> Float[Tensor, "batch point channel"]:
        """The way back."""
        return x.unflatten(0, (self.clouds, -1)).transpose(1, 2).flatten(0, 1)


@torch.inference_mode(False)  # what is found may be kept, and serve a training step later
@torch.no_grad()
def neighborhoods(
    points: Float[Tensor, "#cloud point dim"],
    places: Float[Tensor, "#cloud place dim"],
    radius: float,
    periodic: tuple[bool, ...],
    mask: Bool[Tensor, "#cloud point"] | None = None,
    most: int | None = None,
    fewest: int = 0,
) -> Neighborhoods:
    """The real points y with ‖y − x‖ ≤ (1 + 1e-5)·radius of each place x.

    Counted per place and over real points only, so that no pair depends on other samples, on padding or on the order of points.

    Args:
        most: of a place with more points in reach than these, its nearest, and all that are as far as the last of them.
        fewest: of a place without any point in reach, its nearest, and all that are as far as the last of them.
    """
    with untransformed():
        mask = None if mask is None else bare("mask", mask)
        points, places = bare("points", points), bare("queries", places)

        def compute() -> tuple[int, Neighborhoods]:
            found = _found(points, places, radius, periodic, mask, most, fewest)
            return 8 * (4 * len(found.points.index) + found.points.count + found.places.count), found

        return KEPT.get(f"{radius} {periodic} {most} {fewest}", (points, places, mask), compute)


def _found(
    points: Tensor,
    places: Tensor,
    radius: float,
    periodic: tuple[bool, ...],
    mask: Tensor | None,
    most: int | None,
    fewest: int,
) -> Neighborhoods:
    clouds = max(len(points), len(places), 1 if mask is None else len(mask))
    pairs = []
    for cloud in range(clouds):
        its_points, its_places = (of[min(cloud, len(of) - 1)].double().cpu() for of in (points, places))
        real = torch.arange(len(its_points))
        if mask is not None:
            real = real[mask[min(cloud, len(mask) - 1)].cpu()]
        near, place = _pairs(its_points[real], its_places, radius, periodic, most, fewest)
        pairs.append(torch.stack([real[near] + cloud * len(its_points), place + cloud * len(its_places)]))
    point, place = torch.cat(pairs, dim=1).to(points.device)
    sizes = clouds * points.shape[1], clouds * places.shape[1]
    return Neighborhoods(Segments.of(point, sizes[0]), Segments.of(place, sizes[1]), clouds)


def _pairs(
    points: Float[Tensor, "point dim"],
    places: Float[Tensor, "place dim"],
    radius: float,
    periodic: tuple[bool, ...],
    most: int | None,
    fewest: int,
) -> tuple[Tensor, Tensor]:
    """Of one cloud: a tree proposes, distances in float64 decide."""
    tree, asked = tree_of(points, periodic), into_box(places, periodic)
    reach = np.full(len(asked), radius)
    if most is not None and most < len(points):
        reach = np.minimum(reach, tree.query(asked, k=[most])[0][:, 0])
    if fewest:
        lonely = tree.query(asked, k=[1])[0][:, 0] > (1 + TIE_TOLERANCE) * radius
        reach[lonely] = tree.query(asked[lonely], k=[min(fewest, len(points))])[0][:, 0]
    proposed = tree.query_ball_point(asked, (1 + 2 * TIE_TOLERANCE) * reach, return_sorted=True)
    counts = np.array([len(some) for some in proposed])
    place = torch.from_numpy(np.repeat(np.arange(len(asked)), counts))
    near = torch.from_numpy(np.concatenate([np.asarray(some, dtype=np.int64) for some in proposed]))
    squared = squared_distances(wrap(points[near] - places[place], periodic))
    kept = squared <= (torch.from_numpy(reach)[place] * (1 + TIE_TOLERANCE)).square()
    return near[kept], place[kept]
