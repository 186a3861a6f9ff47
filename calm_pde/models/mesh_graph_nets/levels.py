"""The graphs of a batch of meshes: of all points and, for multi-scale, of a quarter of them, with the ways between both."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from calm_pde.engine.receptive_fields import ContentCache
from calm_pde.engine.transforms import bare, untransformed
from calm_pde.geometry import squared_distances, wrap
from calm_pde.nn.graph import Graph, Pairs, edges_of_cells, nearest_across, nearest_edges
from calm_pde.nn.segments import Segments
from calm_pde.types import Bool, Float, Int, Tensor

JOINED = 3
"""Points of the coarse level that each point is joined with."""
SHARE = 4
"""Of so many points one is in the coarse level."""
_ALIKE = 1 - 1e-5  # of a squared distance: what is as far as the farthest, whatever rounding says

MESHES = ContentCache(128 * 2**20)


class CoarseLevel(NamedTuple):
    """Edges between the coarse points of all meshes, from points to coarse ones, and back.

    Args:
        chosen: of which point each coarse one is a copy.
    """

    chosen: Segments
    within: Graph
    down: Graph
    up: Graph

    def displacements(self, points: Float[Tensor, "node dim"], periodic: tuple[bool, ...]) -> dict[str, Tensor]:
        """x_i − x_j along the edges of each of its graphs, by name."""
        coarse = self.chosen.spread(points)
        ends = {"within": (coarse, coarse), "down": (coarse, points), "up": (points, coarse)}
        return {name: getattr(self, name).displacements(*clouds, periodic) for name, clouds in ends.items()}


class Levels(NamedTuple):
    """Edges between the points of all meshes, one mesh behind the other, of which those of padding have none; and a level of
    fewer points, where there are two."""

    fine: Graph
    coarse: CoarseLevel | None = None

    def displacements(self, points: Float[Tensor, "node dim"], periodic: tuple[bool, ...]) -> dict[str, Tensor]:
        """x_i − x_j along the edges of all graphs, by name."""
        coarse = {} if self.coarse is None else self.coarse.displacements(points, periodic)
        return {"fine": self.fine.displacements(points, points, periodic)} | coarse


class Edges(NamedTuple):
    """Receivers and senders of the edges of one mesh; without multi-scale all but the first have no rows.

    Args:
        chosen: the points of the coarse level.
        joined: each point with coarse ones.
    """

    fine: Pairs
    chosen: Int[Tensor, "coarse"]
    coarse: Pairs
    joined: Pairs


@torch.inference_mode(False)  # what is found is kept, and may serve a training step later
@torch.no_grad()
def levels_of(
    points: Float[Tensor, "cloud point dim"],
    mask: Bool[Tensor, "cloud point"] | None,
    cells: Int[Tensor, "#cloud cell corner"] | None,
    neighbors: int,
    periodic: tuple[bool, ...],
    multi_scale: bool,
) -> Levels:
    """By the cells where they are given, else by nearest neighbors; the edges of a mesh are kept by its content."""
    with untransformed():
        points = bare("points", points)
        clouds, count, _ = points.shape
        everyone, coarse = torch.arange(count, device=points.device), 0
        found: list[Edges] = []
        for cloud in range(clouds):
            real = everyone if mask is None else everyone[mask[cloud]]
            own = None if cells is None else _real_cells(cells[cloud if len(cells) > 1 else 0], real, count)
            edges = _kept(points[cloud, real], own, neighbors, periodic, multi_scale)
            fine, joined = cloud * count + real, torch.stack([coarse + edges.joined[:, 0], real[edges.joined[:, 1]]], dim=1)
            joined[:, 1] += cloud * count
            found.append(Edges(fine[edges.fine], fine[edges.chosen], coarse + edges.coarse, joined))
            coarse += len(edges.chosen)
        fine, chosen, within, down = (torch.cat(parts) for parts in zip(*found, strict=True))
        graph = Graph.of(fine, clouds * count, clouds * count)
        if not multi_scale:
            return Levels(graph)
        ways = Graph.of(down, coarse, clouds * count), Graph.of(down.flip(1), clouds * count, coarse)
        return Levels(graph, CoarseLevel(Segments.of(chosen, clouds * count), Graph.of(within, coarse, coarse), *ways))


def _real_cells(cells: Int[Tensor, "cell corner"], real: Int[Tensor, "real"], count: int) -> Int[Tensor, "some corner"]:
    """Those between points that are there, by their numbers among these."""
    number = torch.full((count,), -1, dtype=torch.int64, device=cells.device)
    number[real] = torch.arange(len(real), device=cells.device)
    cells = number[cells]
    return cells[(cells >= 0).all(dim=1) & (cells != cells[:, :1]).any(dim=1)]


def _kept(
    points: Float[Tensor, "point dim"],
    cells: Int[Tensor, "cell corner"] | None,
    neighbors: int,
    periodic: tuple[bool, ...],
    multi_scale: bool,
) -> Edges:
    def compute() -> tuple[int, Edges]:
        found = _edges(points.double(), cells, neighbors, periodic, multi_scale)
        return sum(8 * part.numel() for part in found), found

    return MESHES.get(f"{neighbors} {periodic} {multi_scale}", (points, cells), compute)


def _edges(
    points: Float[Tensor, "point dim"],
    cells: Int[Tensor, "cell corner"] | None,
    neighbors: int,
    periodic: tuple[bool, ...],
    multi_scale: bool,
) -> Edges:
    count, dim = points.shape
    fine = nearest_edges(points, neighbors, periodic) if cells is None else edges_of_cells(cells, count, dim)
    if not multi_scale:
        return Edges(fine, fine[:0, 0], fine[:0], fine[:0])
    chosen = farthest_points(points, math.ceil(count / SHARE), periodic)
    joined = nearest_across(points, points[chosen], JOINED, periodic).flip(1)
    return Edges(fine, chosen, nearest_edges(points[chosen], neighbors, periodic), joined)


def farthest_points(points: Float[Tensor, "point dim"], count: int, periodic: tuple[bool, ...]) -> Int[Tensor, "chosen"]:
    """`count` points far from one another: the one farthest from the middle of all, then always the farthest from those.

    Of several that are as far it is the first by its coordinates, so that neither the order of points counts nor, on axes that
    are not periodic, where they lie as a whole.
    """
    order = torch.from_numpy(np.lexsort(points.cpu().numpy().T[::-1])).to(points.device)
    places = points[order]
    away = squared_distances(wrap(places - places.mean(dim=0), periodic))
    found, nearest = [_first(away)], torch.full_like(away, torch.inf)
    while len(found) < count:
        nearest = torch.minimum(nearest, squared_distances(wrap(places - places[found[-1]], periodic)))
        found.append(_first(nearest))
    return order[found]


def _first(away: Float[Tensor, "point"]) -> int:
    """Of the farthest, but for rounding."""
    return int((away >= _ALIKE * away.max()).to(torch.int8).argmax())
