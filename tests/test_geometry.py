"""The box and the periodic wrap."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import calm_pde as cp
from calm_pde.errors import InputError
from calm_pde.geometry import spread_out, wrap
from tests.clouds import grid, random_cloud


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_inside_the_box_keep_their_bits_and_others_come_back_on_periodic_axes(dtype):
    box = cp.Box(lower=(-20.0, 0.1), upper=(20.0, 0.7), periodic=(False, True))
    inside = np.random.default_rng(0).uniform(box.lower, box.upper, size=(50, 2)).astype(dtype)
    inside[:2] = box.lower, box.upper
    np.testing.assert_array_equal(box.to_unit_inside(inside), box.to_unit(inside))
    moved = inside[2:].astype(np.float64) + np.array([40.0, -3000 * 0.6])
    wanted = box.to_unit(inside[2:].astype(np.float64)) + np.array([1.0, 0.0])
    np.testing.assert_allclose(box.to_unit_inside(moved), wanted, atol=1e-9)


def test_box_maps_corners_and_back():
    box = cp.Box(lower=(-20.0, 0.0), upper=(20.0, 0.4), periodic=(False, True))
    corners = np.array([[-20.0, 0.0], [20.0, 0.4], [0.0, 0.1]])
    unit = box.to_unit(corners)
    np.testing.assert_allclose(unit, [[0, 0], [1, 1], [0.5, 0.25]], atol=1e-15)
    np.testing.assert_allclose(box.to_physical(unit), corners, atol=1e-14)
    as_tensor = torch.tensor(corners, dtype=torch.float32)
    assert box.to_unit(as_tensor).dtype == torch.float32
    assert torch.allclose(box.to_physical(box.to_unit(as_tensor)), as_tensor, atol=1e-5)
    assert box.dim == 2
    assert cp.Box(lower=[0], upper=[1], periodic=True) == cp.Box(lower=(0.0,), upper=(1.0,), periodic=(True,))


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"lower": (0.0,), "upper": (0.0,)}, "lower < upper"),
        ({"lower": (0.0, 0.0), "upper": (1.0,)}, "lower < upper"),
        ({"lower": (0.0,), "upper": (float("nan"),)}, "finite"),
        ({"lower": (), "upper": ()}, "finite"),
        ({"lower": (0.0,), "upper": (1.0,), "periodic": (True, False)}, "one per axis"),
    ],
)
def test_impossible_boxes(arguments, word):
    with pytest.raises(InputError, match=word):
        cp.Box(**arguments)


def test_points_of_another_dimension():
    with pytest.raises(InputError, match=r"points: expected .* 2 coordinates.*got shape \(5, 3\)"):
        cp.Box(lower=(0.0, 0.0), upper=(1.0, 1.0)).to_unit(np.zeros((5, 3)))


@given(st.floats(-10, 10))
def test_wrap_is_the_nearest_image(d):
    wrapped = wrap(torch.tensor([[d, d]], dtype=torch.float64), (True, False))[0]
    assert -0.5 <= float(wrapped[0]) < 0.5
    assert float(wrapped[0]) == pytest.approx(d - np.floor(d + 0.5), abs=0)
    assert float(wrapped[1]) == d


def test_wrap_passes_gradients():
    d = torch.tensor([[0.7, 0.7]], dtype=torch.float64, requires_grad=True)
    wrap(d, (True, False)).sum().backward()
    assert torch.equal(d.grad, torch.ones(1, 2, dtype=torch.float64))  # pyright: ignore[reportArgumentType]


def test_spread_points_are_farther_apart_than_chance():
    points = random_cloud(500, 2)
    chosen = points[spread_out(points, 8, (False, False))]
    assert float((chosen[0] - 0.5).norm()) < 0.05
    assert float(torch.pdist(chosen).min()) > 0.3
    assert len(spread_out(points[:5], 8, (False, False)).unique()) == 5
    assert spread_out(points[:1].repeat(4, 1), 3, (False, False)).unique().numel() == 3


def test_spread_points_know_periodic_axes():
    """Of two points at the two ends of a periodic axis, only one is far from the middle."""
    points = torch.tensor([[0.5], [0.01], [0.99], [0.25]], dtype=torch.float64)
    assert spread_out(points, 3, (False,)).tolist() == [0, 1, 2]
    assert spread_out(points, 3, (True,)).tolist() == [0, 1, 3]
    assert sorted(spread_out(grid(4, 2), 2, (True, True)).tolist()) == [0, 10]
