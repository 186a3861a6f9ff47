"""Supernodes are a function of a mesh alone, and as dense as it is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from calm_pde.models.upt.supernodes import along_curve, supernodes
from tests.clouds import grid, random_cloud
from tests.models.upt import upt_oracle as oracle


def places(points, count, mask=None, periodic=(False, False)) -> list[set[tuple[float, ...]]]:
    """Where the supernodes of each cloud are."""
    which, valid = supernodes(points, mask, count, periodic)
    clouds = points.expand(len(which), -1, -1)
    return [{tuple(p) for p in clouds[c, which[c, valid[c]]].tolist()} for c in range(len(which))]


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_curve_is_that_of_the_bits(dim):
    points = random_cloud(60, dim)
    assert along_curve(points).tolist() == oracle.along_curve(points.numpy())


@pytest.mark.parametrize("make", [lambda: random_cloud(64, 2), lambda: grid(8, 2)], ids=["cloud", "grid"])
@pytest.mark.parametrize("count", [7, 16, 64, 100])
def test_the_order_of_points_does_not_matter(make, count):
    points = make()
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(2))
    assert places(points[None], count) == places(points[order][None], count)
    assert len(places(points[None], count)[0]) == min(count, len(points))


def test_each_cloud_has_its_own_whatever_stands_beside():
    """Padding and batch mates change nothing; a cloud with fewer points than supernodes has all of them."""
    points, mask = random_cloud(60, 2).view(2, 30, 2), torch.arange(30) < torch.tensor([[30], [9]])
    points[1, 9:] = 0.3
    together = places(points, 12, mask)
    assert together == places(points[:1], 12) + places(points[1:, :9], 12)
    assert [len(chosen) for chosen in together] == [12, 9]
    shared = places(points[:1], 12, mask)
    assert shared == [together[0], *places(points[:1, :9], 12)]


def test_of_a_grid_every_other_point_along_each_axis():
    which, valid = supernodes(grid(16, 2)[None], None, 64, (True, True))
    assert bool(valid.all())
    chosen = (16 * grid(16, 2)[which[0]]).round().int()
    assert sorted(map(tuple, (chosen // 2).tolist())) == list(itertools.product(range(8), repeat=2))


def test_they_are_as_dense_as_the_points():
    """Of a cloud with nine tenths of its points in a corner, nine tenths of the supernodes."""
    points = torch.cat([0.1 * random_cloud(900, 2), 0.1 + 0.9 * random_cloud(100, 2, seed=1)])
    (chosen,) = places(points[None], 100)
    inside = np.array([max(p) < 0.1 for p in chosen])
    assert inside.sum() == pytest.approx(90, abs=2)


def test_whole_periods_change_nothing():
    points = random_cloud(40, 2)
    which, _ = supernodes(points[None], None, 10, (True, False))
    moved, _ = supernodes((points + torch.tensor([3.0, 0.0]))[None], None, 10, (True, False))
    assert set(which[0].tolist()) == set(moved[0].tolist())
