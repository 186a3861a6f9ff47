"""The order of points along Hilbert's curve: every cell once, each next to the one before, whatever else is listed."""

from __future__ import annotations

import itertools

import pytest
import torch

from calm_pde.models.ono.curve import hilbert, walk
from tests.clouds import random_cloud


@pytest.mark.parametrize(("dim", "bits"), [(1, 5), (2, 1), (2, 2), (2, 4), (3, 1), (3, 3)])
def test_the_curve_meets_every_cell_once_and_steps_to_neighbors(dim: int, bits: int) -> None:
    cells = torch.tensor(list(itertools.product(range(2**bits), repeat=dim)))
    places = hilbert(cells, bits)
    assert places.sort().values.tolist() == list(range(2 ** (bits * dim)))
    steps = cells[places.argsort()].diff(dim=0).abs().sum(dim=1)
    assert bool((steps == 1).all())


@pytest.mark.parametrize("dim", [2, 3])
def test_the_curve_stays_in_a_block_until_it_is_done(dim: int) -> None:
    """Places of one 2ᵈ-th of the box are one 2ᵈ-th of all, in a row; so it goes for its parts."""
    cells = torch.tensor(list(itertools.product(range(8), repeat=dim)))
    places = hilbert(cells, 3)
    for half, parts in ((4, 2**dim), (2, 4**dim)):
        block, share = cells // half, places // (8**dim // parts)
        pairs = {(tuple(b), s) for b, s in zip(block.tolist(), share.tolist(), strict=True)}
        assert len(pairs) == parts


def test_fine_cells_refine_coarse_ones() -> None:
    cells = torch.randint(0, 2**20, (200, 3), generator=torch.Generator().manual_seed(0))
    fine, coarse = hilbert(cells, 20), hilbert(cells >> 18, 2)
    ranks = coarse[fine.argsort()].unique_consecutive()
    assert len(ranks) == len(coarse.unique())


def test_masked_points_come_last_and_change_nothing() -> None:
    points = random_cloud(60, 2).view(2, 30, 2)
    mask = torch.rand(2, 30, generator=torch.Generator().manual_seed(1)) > 0.4
    found = walk(points.masked_fill(~mask[..., None], 0.0), mask)
    for sample in range(2):
        real = mask[sample].nonzero().flatten()
        alone = walk(points[sample, real][None], None)
        assert torch.equal(found.order[sample, : len(real)], real[alone.order[0]])
    values = random_cloud(60, 3, seed=2).view(2, 30, 3)
    assert torch.equal(found.back(found.along(values)), values)
    twice = values.repeat_interleave(2, dim=0)
    assert torch.equal(found.along(twice)[1], found.along(values)[0])


def test_the_way_is_that_of_the_points_and_not_of_their_list() -> None:
    points = random_cloud(50, 2)
    order = torch.randperm(50, generator=torch.Generator().manual_seed(3))
    assert torch.equal(points[order][walk(points[order][None], None).order[0]], points[walk(points[None], None).order[0]])
    moved = 3.0 * points - 7.0
    assert torch.equal(walk(moved[None], None).order, walk(points[None], None).order)
    one = torch.full((1, 4, 2), 0.3)
    assert walk(one, None).order.tolist() == [[0, 1, 2, 3]]
