"""Grids recognized from points alone: any order, any dimension, shifted and rounded; and what is not one."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calm_pde.errors import InputError
from calm_pde.models.grid_recognition import recognized_grid
from tests.clouds import random_cloud


def grid_points(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    axes = [torch.arange(size, dtype=dtype) / size for size in shape]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, len(shape))


@given(shape=st.lists(st.integers(1, 7), min_size=1, max_size=3), seed=st.integers(0, 1000), offset=st.floats(-1, 1))
def test_any_order_is_laid_out_and_back(shape, seed, offset):
    generator = torch.Generator().manual_seed(seed)
    points = grid_points(tuple(shape))
    order = torch.randperm(len(points), generator=generator)
    rounding = 1e-7 * torch.rand(points.shape, generator=generator)
    grid, found = recognized_grid(points[order] + offset + rounding, None, None, (1,) * len(shape), "fno")
    assert grid.shape == tuple(shape)
    values = torch.randn(2, len(points), 3, generator=generator)
    shuffled = values[:, order]
    assert torch.equal(grid.by_cell(shuffled), values)
    assert torch.equal(grid.by_point(grid.by_cell(shuffled)), shuffled)
    assert torch.allclose(grid.by_cell(found), points + offset, atol=1e-6)


def test_the_order_of_cells_costs_nothing():
    grid, _ = recognized_grid(grid_points((4, 5)), None, None, (1, 1), "fno")
    values = torch.randn(1, 20, 2)
    assert grid.by_cell(values) is values
    assert grid.by_point(values) is values


@pytest.mark.parametrize("side", [64, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_grids_keep_their_axes_apart(side, dtype):
    assert recognized_grid(grid_points((side, 64), dtype), None, None, (1, 1), "fno")[0].shape == (side, 64)


def test_a_mask_that_hides_nothing_and_meshes_that_agree_are_a_grid():
    points = grid_points((4, 5))
    mask = torch.ones(3, 20, dtype=torch.bool)
    grid, shared = recognized_grid(points.expand(3, 20, 2), mask, None, (1, 1), "fno")
    assert grid.shape == (4, 5)
    assert torch.equal(shared, points)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (random_cloud(20, 2).float(), "expected a full grid.*fno lives on one.*20 points with 20 × 20 different"),
        (grid_points((4, 5))[:-1], "19 points with 4 × 5 different"),
        (torch.cat([grid_points((4, 5))[:-1], grid_points((4, 5))[:1]]), "20 points with 4 × 5 different"),
        (grid_points((6, 2)), "a grid of at least 4 × 4 cells.*got 6 × 2.*fewer modes"),
    ],
)
def test_what_is_no_grid_is_refused(points, message):
    with pytest.raises(InputError, match=message):
        recognized_grid(points, None, None, (4, 4), "fno")
