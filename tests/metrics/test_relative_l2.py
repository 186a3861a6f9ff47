"""Relative errors against plain loops, under masks, at any scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from calm_pde.metrics.relative_l2 import SMALLEST, relative_l2, relative_l2_loss, relative_l2_spacetime


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


@pytest.mark.parametrize("spacetime", [False, True])
def test_in_the_loss_channels_count_by_their_weights(spacetime):
    prediction, target = torch.from_numpy(draw(3, 4, 7, 3)), torch.from_numpy(draw(3, 4, 7, 3, seed=1))
    alone = [relative_l2_loss(prediction[..., [c]], target[..., [c]], spacetime=spacetime) for c in range(3)]
    found = relative_l2_loss(prediction, target, None, spacetime, torch.tensor([0.5, 2.0, 0.5], dtype=torch.float64))
    torch.testing.assert_close(found, (alone[0] + 4 * alone[1] + alone[2]) / 6)
