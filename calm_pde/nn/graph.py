"""Graphs: edges from senders to receivers, listed by receiver; of a mesh's cells, or to the nearest points."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import torch

from calm_pde.engine.receptive_fields import receptive_field
from calm_pde.errors import InputError
from calm_pde.geometry import wrap
from calm_pde.nn.segments import Segments
from calm_pde.types import Float, Int, Tensor

Pairs = Int[Tensor, "_ 2"]
"""Receiver and sender of each edge."""

_RINGS = {5: [(0, 1, 2, 3)], 6: [(0, 1, 2), (3, 4, 5)], 8: [(0, 1, 2, 3), (4, 5, 6, 7)]}
_BETWEEN = {5: [(i, 4) for i in range(4)], 6: [(i, i + 3) for i in range(3)], 8: [(i, i + 4) for i in range(4)]}
"""Of solids: corners around their faces, and edges between these."""


class Graph(NamedTuple):
    """Each edge belongs to one receiver and to one sender, which may be points of one cloud or of two."""

    receivers: Segments
    senders: Segments

    @classmethod
    def of(cls, edges: Pairs, num_receivers: int, num_senders: int) -> Graph:
        """Of edges in any order, of which none comes twice."""
        edges = _sorted(edges, num_senders)
        return cls(Segments.of(edges[:, 0].contiguous(), num_receivers), Segments.of(edges[:, 1].contiguous(), num_senders))

    @property
    def size(self) -> int:
        """How many edges there are."""
        return len(self.receivers.index)

    def displacements(
        self, received: Float[Tensor, "receiver dim"], sent: Float[Tensor, "sender dim"], periodic: tuple[bool, ...]
    ) -> Float[Tensor, "edge dim"]:
        """x_i − x_j from each sender j to its receiver i, across periodic axes."""
        return wrap(self.receivers.spread(received) - self.senders.spread(sent), periodic)


def edges_of_cells(cells: Int[Tensor, "cell corner"], num_points: int, dim: int) -> Pairs:
    """Both ways along every edge of every cell, each once."""
    ends = torch.tensor(_edges(dim, cells.shape[-1]), dtype=torch.int64, device=cells.device).view(-1, 2)
    return both_ways(cells[:, ends].reshape(-1, 2), num_points)


def nearest_edges(points: Float[Tensor, "point dim"], count: int, periodic: tuple[bool, ...]) -> Pairs:
    """Both ways between each point and its `count` nearest others; points as far as the last of them belong too."""
    return both_ways(nearest_across(points, points, count + 1, periodic), len(points))


def nearest_across(
    receivers: Float[Tensor, "receiver dim"], senders: Float[Tensor, "sender dim"], count: int, periodic: tuple[bool, ...]
) -> Pairs:
    """To each receiver from its `count` nearest senders, with ties as receptive fields have them, whatever the order."""
    last = len(senders) - 1
    share = 1.0 if count > last else (count - 0.5) / last
    found = receptive_field(senders[None], receivers[None], share, periodic)
    receiver, column = found.valid[0].nonzero(as_tuple=True)
    return torch.stack([receiver, found.indices[0][receiver, column]], dim=1)


def both_ways(edges: Pairs, num_points: int) -> Pairs:
    """Each edge with the opposite one, once, and none from a point to itself."""
    edges = edges[edges[:, 0] != edges[:, 1]]
    return _sorted(torch.cat([edges, edges.flip(1)]), num_points, once=True)


def _sorted(edges: Pairs, num_senders: int, once: bool = False) -> Pairs:
    """By receiver, and those of a receiver by sender."""
    keys = edges[:, 0] * num_senders + edges[:, 1]
    keys = keys.unique() if once else keys.sort().values
    return torch.stack([keys // max(1, num_senders), keys % max(1, num_senders)], dim=1)


def _edges(dim: int, corners: int) -> list[tuple[int, int]]:
    """Of a cell with so many corners, in VTK's order: a simplex, a polygon in the plane, or a solid."""
    if corners <= dim + 1:
        return list(combinations(range(corners), 2))
    rings = [tuple(range(corners))] if dim == 2 else _RINGS.get(corners, []) if dim == 3 else []
    if not rings:
        solids = "lines, triangles, tetrahedra, pyramids, wedges or hexahedra"
        raise InputError(
            "cells",
            expected=solids if dim == 3 else "lines",
            got=f"cells of {corners} corners in {dim}-D",
            fix="Split them into simplices, or take edges to the nearest points (model.cells: false).",
        )
    around = [pair for ring in rings for pair in zip(ring, (*ring[1:], ring[0]), strict=True)]
    return around + (_BETWEEN[corners] if dim == 3 else [])
