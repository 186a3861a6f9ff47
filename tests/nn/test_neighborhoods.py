"""Neighborhoods against loops in float64, and what they do not depend on."""

from __future__ import annotations

import math

import pytest
import torch

from calm_pde.nn.neighborhoods import Neighborhoods, neighborhoods
from tests.clouds import grid, random_cloud
from tests.oracle import difference, norm_squared


def by_loops(points, places, radius, periodic, real=None, most=None, fewest=0) -> list[set[int]]:
    """The points near each place, one after the other."""
    real = range(len(points)) if real is None else real
    found = []
    for place in places.tolist():
        away = {j: math.sqrt(norm_squared(difference(points[j].tolist(), place, periodic))) for j in real}
        ranked = sorted(away.values())
        reach = radius if most is None or most >= len(ranked) else min(radius, ranked[most - 1])
        if fewest and ranked[0] > (1 + 1e-5) * radius:
            reach = ranked[min(fewest, len(ranked)) - 1]
        found.append({j for j in real if away[j] <= (1 + 1e-5) * reach})
    return found


def sets(found: Neighborhoods, num_points: int, num_places: int) -> list[list[set[int]]]:
    """By cloud and place, once they are found sorted."""
    pairs = list(zip(found.places.index.tolist(), found.points.index.tolist(), strict=True))
    assert pairs == sorted(pairs)
    near = [[set() for _ in range(num_places)] for _ in range(found.clouds)]
    for place, point in pairs:
        assert place // num_places == point // num_points
        near[place // num_places][place % num_places].add(point % num_points)
    return near


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("wraps", [False, True])
@pytest.mark.parametrize("limits", [{}, {"most": 3}, {"fewest": 4}, {"most": 5, "fewest": 2}], ids=str)
@pytest.mark.parametrize("make", [lambda dim: random_cloud(40, dim), lambda dim: grid(4, dim)], ids=["cloud", "grid"])
def test_equals_loops(make, limits, wraps, dim):
    """On grids full of ties too; places are beyond the box and points among them."""
    points = make(dim)
    places = torch.cat([1.4 * random_cloud(12, dim, seed=1) - 0.2, points[:3]])
    periodic = (wraps,) * dim
    found = neighborhoods(points[None], places[None], 0.25, periodic, **limits)
    assert sets(found, len(points), len(places)) == [by_loops(points, places, 0.25, periodic, **limits)]
    if limits.get("fewest"):
        assert int(found.places.sizes.min()) >= 1


def test_each_cloud_has_its_own_and_masked_points_are_in_none():
    """Whatever stands at masked ones; and one cloud is asked with several masks."""
    points, places = random_cloud(60, 2).view(2, 30, 2), random_cloud(9, 2, seed=1)
    mask = torch.arange(30) < torch.tensor([[30], [17]])
    points[1, 20:] = 0.5
    wanted = [by_loops(points[0], places, 0.2, (False, True)), by_loops(points[1], places, 0.2, (False, True), range(17))]
    assert sets(neighborhoods(points, places[None], 0.2, (False, True), mask), 30, 9) == wanted
    shared = [wanted[0], by_loops(points[0], places, 0.2, (False, True), range(17))]
    assert sets(neighborhoods(points[:1], places[None], 0.2, (False, True), mask), 30, 9) == shared


def test_displacements_are_from_the_place_to_the_point_across_the_seam():
    points, places = torch.tensor([[[0.95, 0.5], [0.1, 0.5]]]).double(), torch.tensor([[[0.05, 0.4]]]).double()
    found = neighborhoods(points, places, 0.3, (True, False))
    torch.testing.assert_close(
        found.displacements(points, places, (True, False)), torch.tensor([[-0.1, 0.1], [0.05, 0.1]]).double()
    )


def test_what_stands_at_points_goes_to_rows_and_back():
    """Samples of one cloud are rows of it; samples with clouds of their own have one row each."""
    x = torch.arange(24.0).view(4, 3, 2)
    for clouds in (1, 2, 4):
        points = random_cloud(3 * clouds, 2).view(clouds, 3, 2)
        found = neighborhoods(points, points, 0.1, (False, False))
        rows = found.by_points(x)
        assert rows.shape == (3 * clouds, 4 // clouds, 2)
        assert torch.equal(found.by_samples(rows), x)
        assert torch.equal(rows[3 * clouds - 1, -1], x[-1, -1])


def test_nothing_near_is_no_pair():
    found = neighborhoods(torch.zeros(1, 2, 2).double(), torch.ones(1, 3, 2).double(), 0.1, (False, False))
    assert found.places.sizes.tolist() == [0, 0, 0]
    assert found.displacements(torch.zeros(1, 2, 2), torch.ones(1, 3, 2), (False, False)).shape == (0, 2)
