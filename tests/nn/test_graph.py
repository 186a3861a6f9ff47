"""Graphs of meshes: edges of known cells, nearest neighbors by brute force, and displacements across the border."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from calm_pde.errors import InputError
from calm_pde.geometry import wrap
from calm_pde.nn.graph import Graph, both_ways, edges_of_cells, nearest_across, nearest_edges
from tests.clouds import grid, random_cloud


def pairs(edges: torch.Tensor) -> set[tuple[int, int]]:
    assert len(edges) == len(set(map(tuple, edges.tolist())))
    return set(map(tuple, edges.tolist()))


@pytest.mark.parametrize(
    ("dim", "corners", "sides"),
    [(1, 2, 1), (2, 3, 3), (2, 4, 4), (2, 6, 6), (3, 3, 3), (3, 4, 6), (3, 5, 8), (3, 6, 9), (3, 8, 12), (2, 1, 0)],
)
def test_a_cell_has_its_sides_both_ways(dim, corners, sides):
    """As many as the solid has edges, with V − E + F = 2 where it is one."""
    edges = pairs(edges_of_cells(torch.arange(corners)[None], corners, dim))
    assert len(edges) == 2 * sides
    assert edges == {(b, a) for a, b in edges}


def test_the_sides_of_a_cube_are_those_of_length_one():
    corners = torch.tensor([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]).double()
    for receiver, sender in pairs(edges_of_cells(torch.arange(8)[None], 8, 3)):
        assert float((corners[receiver] - corners[sender]).norm()) == 1.0


def test_cells_that_share_a_side_share_its_edges():
    edges = edges_of_cells(torch.tensor([[0, 1, 2], [1, 2, 3], [4, 4, 4]]), 5, 2)
    assert pairs(edges) == {(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2)}


def test_cells_that_nobody_knows_are_refused():
    for dim, corners in ((3, 7), (1, 3)):
        with pytest.raises(InputError, match=rf"cells: expected lines.*got cells of {corners} corners in {dim}-D"):
            edges_of_cells(torch.arange(corners)[None], corners, dim)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("periodic", [False, True])
def test_nearest_neighbors_by_brute_force(dim, periodic):
    points, axes = random_cloud(40, dim), (periodic,) * dim
    wanted = set()
    for here in range(40):
        away = points[here] - points
        distance = (away - away.round() if periodic else away).norm(dim=1)
        for there in distance.argsort()[1:5].tolist():
            wanted |= {(here, there), (there, here)}
    assert pairs(nearest_edges(points, 4, axes)) == wanted


def test_ties_belong_so_that_no_order_counts():
    """On a square grid the six nearest are eight."""
    points, order = grid(8, 2), torch.randperm(64, generator=torch.Generator().manual_seed(0))
    edges = nearest_edges(points, 6, (True, True))
    assert (Graph.of(edges, 64, 64).receivers.sizes == 8).all()
    moved = nearest_edges(points[order] + 0.3, 6, (True, True))
    assert pairs(order[moved]) == pairs(edges)


def test_few_points_are_all_neighbors():
    assert pairs(nearest_edges(random_cloud(3, 2), 6, (False, False))) == set(itertools.permutations(range(3), 2))
    assert len(nearest_edges(random_cloud(1, 2), 6, (False, False))) == 0


def test_across_clouds_each_receiver_has_its_nearest_senders():
    here, there = random_cloud(20, 2), random_cloud(7, 2, seed=1)
    found = nearest_across(here, there, 3, (False, False))
    distances = torch.cdist(here, there)
    assert pairs(found) == {(i, int(j)) for i in range(20) for j in distances[i].argsort()[:3]}


def test_edges_are_listed_by_receiver_and_displacements_lead_to_it():
    points = random_cloud(12, 2)
    graph = Graph.of(both_ways(torch.tensor([[3, 1], [0, 11], [3, 0], [2, 2]]), 12), 12, 12)
    listed = list(zip(graph.receivers.index.tolist(), graph.senders.index.tolist(), strict=True))
    assert listed == [(0, 3), (0, 11), (1, 3), (3, 0), (3, 1), (11, 0)]
    assert graph.size == 6
    away = graph.displacements(points, points, (True, False))
    expected = np.array([(points[i] - points[j]).tolist() for i, j in listed])
    expected[:, 0] -= np.round(expected[:, 0])
    np.testing.assert_allclose(away.numpy(), expected, atol=1e-15)
    assert torch.equal(away, wrap(away, (True, False)))
