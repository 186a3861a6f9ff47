"""Errors against plain loops, masks, Fourier bands by Parseval, and cell measures by area."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from calm_pde.geometry import tensor_grid
from calm_pde.metrics.errors import SMALLEST, band_energies, cell_weights, relative_l2, relative_l2_loss, relative_l2_spacetime


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def looped(prediction, target, real):
    """Per sample, frame and channel; and with one norm over space and time."""
    batch, time, points, channels = target.shape
    frames, whole = np.zeros((batch, time, channels)), np.zeros((batch, channels))
    for b in range(batch):
        for c in range(channels):
            total, sizes = 0.0, 0.0
            for t in range(time):
                error = sum((prediction[b, t, p, c] - target[b, t, p, c]) ** 2 for p in range(points) if real[b, p])
                size = sum(target[b, t, p, c] ** 2 for p in range(points) if real[b, p])
                frames[b, t, c] = math.sqrt(error / size)
                total, sizes = total + error, sizes + size
            whole[b, c] = math.sqrt(total / sizes)
    return frames, whole


@pytest.mark.parametrize("masked", [False, True])
def test_relative_errors_are_those_of_a_loop(masked):
    prediction, target = draw(3, 4, 7, 2), draw(3, 4, 7, 2, seed=1)
    real = np.ones((3, 7), dtype=bool)
    if masked:
        real[0, 5:], real[2, 2:] = False, False
    mask = torch.from_numpy(real) if masked else None
    frames, whole = looped(prediction, target, real)
    given = torch.from_numpy(prediction), torch.from_numpy(target), mask
    np.testing.assert_allclose(relative_l2(*given).numpy(), frames, rtol=1e-12)
    np.testing.assert_allclose(relative_l2_spacetime(*given).numpy(), whole, rtol=1e-12)


@pytest.mark.parametrize("measure", [relative_l2, relative_l2_spacetime])
def test_masked_points_are_never_read(measure):
    prediction, target = torch.from_numpy(draw(1, 2, 5, 1)), torch.from_numpy(draw(1, 2, 5, 1, seed=1))
    mask = torch.tensor([[True, True, True, False, False]])
    short = measure(prediction[:, :, :3], target[:, :, :3], None)
    prediction[:, :, 3:], target[:, :, 3:] = float("nan"), float("inf")
    assert torch.equal(measure(prediction, target, mask), short)


@pytest.mark.parametrize("spacetime", [False, True])
def test_in_the_loss_a_vanishing_target_counts_as_the_smallest_norm(spacetime):
    loss = relative_l2_loss(torch.full((1, 1, 4, 1), 0.5), torch.zeros(1, 1, 4, 1), spacetime=spacetime)
    assert loss.item() == pytest.approx(math.sqrt(4 * 0.25 / SMALLEST))


@pytest.mark.parametrize("spacetime", [False, True])
def test_the_loss_is_the_mean_error_of_fields_of_normal_size(spacetime):
    prediction, target = torch.from_numpy(draw(3, 4, 7, 2)), torch.from_numpy(draw(3, 4, 7, 2, seed=1))
    mask = torch.arange(7) < torch.tensor([7, 5, 3])[:, None]
    measure = relative_l2_spacetime if spacetime else relative_l2
    found = relative_l2_loss(prediction, target, mask, spacetime)
    torch.testing.assert_close(found, measure(prediction, target, mask).flatten(1).mean(dim=1))


@pytest.mark.parametrize("measure", [relative_l2, relative_l2_spacetime])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("exponent", [-100, -40, -20, 0, 20, 100])
def test_errors_do_not_know_the_unit_of_a_field(measure, dtype, exponent):
    """Sizes from 1e-30 to 1e30, at powers of two so that not a bit may differ; zero is wrong by its whole size."""
    prediction, target = (torch.from_numpy(draw(2, 3, 6, 2, seed=seed)).to(dtype) for seed in (0, 1))
    scale = 2.0**exponent
    assert torch.equal(measure(scale * prediction, scale * target), measure(prediction, target))
    nothing = measure(torch.zeros_like(target), scale * target)
    assert torch.equal(nothing, torch.ones_like(nothing))


@pytest.mark.parametrize("measure", [relative_l2, relative_l2_spacetime])
def test_sizes_whose_squares_leave_float64_are_compared_too(measure):
    target = torch.from_numpy(draw(1, 2, 5, 1))
    for scale in (1e-200, 1e200):
        torch.testing.assert_close(measure(1.25 * scale * target, scale * target), measure(1.25 * target, target))


def test_a_zero_target_has_no_relative_error_and_what_is_not_finite_an_infinite_one():
    target = torch.from_numpy(draw(1, 4, 5, 1))
    target[:, 1:3] = 0
    prediction = target + 1.0
    prediction[:, 2:, 0] = torch.tensor([math.nan, math.inf])[:, None]
    found = relative_l2(prediction, target)[0, :, 0].tolist()
    assert math.isfinite(found[0])
    assert math.isnan(found[1])
    assert found[2:] == [math.inf, math.inf]


@pytest.mark.parametrize(("wave", "band"), [((0, 0), "low"), ((3, -3), "low"), ((3, 4), "middle"), ((12, 4), "middle")])
@pytest.mark.parametrize("height", [1.0, 3.0])
def test_a_single_mode_lands_in_its_band_with_all_its_energy(wave, band, height):
    points = tensor_grid(np.arange(32) / 32, np.arange(30) / 30)
    values = height * np.cos(2 * np.pi * points @ wave + 0.3)
    found = band_energies(torch.from_numpy(values)[None, None, :, None], (32, 30))
    assert set(found) == {"low", "middle", "high"}
    for name, energy in found.items():
        assert energy.item() == pytest.approx(np.square(values).sum() if name == band else 0.0, abs=1e-9)


@pytest.mark.parametrize("shape", [(40,), (32, 30), (6, 10, 28)])
def test_the_bands_share_the_whole_energy(shape):
    values = torch.from_numpy(draw(2, 3, math.prod(shape), 2))
    total = sum(band_energies(values, shape).values())
    torch.testing.assert_close(total, values.square().sum(dim=(0, 1, 2)))


def test_a_coarse_grid_has_no_high_band():
    assert list(band_energies(torch.zeros(1, 1, 8, 1), (8,))) == ["low"]


def test_cell_weights_integrate_linear_functions_exactly():
    """On triangles, on quadrilaterals, on tetrahedra and on segments; ∫x over the unit box is ½."""
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.3, 0.6]])
    triangles = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
    slanted = np.array([[0.0, 0.0], [0.4, 0.0], [1.0, 0.0], [0.0, 1.0], [0.7, 1.0], [1.0, 1.0]])
    quadrilaterals = np.array([[0, 1, 4, 3], [1, 2, 5, 4]])
    corner = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    line = np.array([[0.0], [0.2], [1.0]])
    whole = {"area": 1.0, "moment": 0.5}
    for points, cells, expected in (
        (square, triangles, whole),
        (slanted, quadrilaterals, {"area": 1.0}),
        (corner, np.array([[0, 1, 2, 3]]), {"area": 1 / 6, "moment": 1 / 24}),
        (line, np.array([[0, 1], [2, 1]]), whole),
    ):
        weights = cell_weights(points, cells, (False,) * points.shape[1])
        assert weights is not None
        assert weights.sum() == pytest.approx(expected["area"], rel=1e-12)
        if "moment" in expected:
            assert weights @ points[:, 0] == pytest.approx(expected["moment"], rel=1e-12)


def test_cells_across_a_periodic_seam_are_small():
    points = (np.arange(4) / 4)[:, None]
    ring = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    weights = cell_weights(points, ring, (True,))
    assert weights is not None
    np.testing.assert_allclose(weights, 0.25)


def test_other_cells_have_no_weights():
    assert cell_weights(np.zeros((8, 3)), np.arange(8)[None], (False,) * 3) is None
