"""The relative error of gradients of given pairs: its numbers, its derivatives, and what it must not read."""

from __future__ import annotations

import math

import pytest
import torch

from calm_pde.metrics import relative_h1
from calm_pde.metrics.relative_h1 import Pairs, relative_h1_loss, squared_seminorms
from calm_pde.metrics.relative_l2 import SMALLEST

CHAIN = Pairs(torch.tensor([[1, 0], [0, 2], [1, 0]]), torch.tensor([[2.0, 0.0], [2.0, 0.5], [0.5, 0.0]], dtype=torch.float64))
"""Points 0, 1, 2 in a row: 2 (u₀ − u₁)² + ½ (u₁ − u₂)²."""


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_hand(u):
    return 2 * (u[..., 0, :] - u[..., 1, :]) ** 2 + 0.5 * (u[..., 1, :] - u[..., 2, :]) ** 2


@pytest.mark.parametrize("spacetime", [False, True])
def test_the_loss_is_the_ratio_written_out(spacetime):
    prediction, target = draw(4, 5, 3, 2), draw(4, 5, 3, 2, seed=1)
    error, size = by_hand(prediction - target), by_hand(target)
    wanted = (error.sum(1) / size.sum(1)).sqrt().mean(1) if spacetime else (error / size).sqrt().mean((1, 2))
    torch.testing.assert_close(relative_h1_loss(prediction, target, [CHAIN], spacetime=spacetime), wanted)
    torch.testing.assert_close(relative_h1_loss(prediction, target, [CHAIN] * 4, spacetime=spacetime), wanted)


def test_parts_of_a_batch_are_the_batch(monkeypatch):
    values = draw(7, 2, 3, 2)
    for at_once in (1, 30, 1000):
        monkeypatch.setattr(relative_h1, "_AT_ONCE", at_once)
        torch.testing.assert_close(squared_seminorms(values, [CHAIN]), by_hand(values))


def test_derivatives_of_first_and_second_order():
    values = draw(2, 2, 3, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda u: squared_seminorms(u, [CHAIN]), values)
    assert torch.autograd.gradgradcheck(lambda u: squared_seminorms(u, [CHAIN]), values)


@pytest.mark.parametrize("spacetime", [False, True])
def test_a_constant_target_counts_as_the_smallest_norm(spacetime):
    prediction = torch.tensor([1.0, 3.0, 3.0])[None, None, :, None]
    loss = relative_h1_loss(prediction, torch.full((1, 1, 3, 1), 7.0), [CHAIN], spacetime=spacetime)
    assert loss.item() == pytest.approx(math.sqrt(2 * 4 / SMALLEST))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_constant_error_has_no_gradient(dtype):
    """Nor has a mesh without pairs; neither makes what learns not a number."""
    target = draw(1, 2, 3, 1).to(dtype)
    alone = Pairs(torch.zeros(3, 0, dtype=torch.int64), torch.zeros(3, 0, dtype=torch.float64))
    for truth, mesh in ((target, CHAIN), (torch.ones_like(target), CHAIN), (target, alone)):
        prediction = (truth + 0.5 if mesh is alone else torch.full_like(truth, 0.5)).requires_grad_()
        loss = relative_h1_loss(prediction, torch.ones_like(truth) if mesh is CHAIN else truth, [mesh])
        loss.sum().backward()
        assert loss.item() < 1e-15
        assert torch.equal(prediction.grad, torch.zeros_like(prediction))


def test_masked_points_are_never_read():
    prediction, target = draw(1, 2, 5, 1), draw(1, 2, 5, 1, seed=1)
    mask = torch.tensor([[True, True, True, False, False]])
    short = relative_h1_loss(prediction[:, :, :3], target[:, :, :3], [CHAIN])
    prediction[:, :, 3:], target[:, :, 3:] = float("nan"), float("inf")
    prediction.requires_grad_()
    wide = Pairs(*(torch.cat([part, torch.zeros_like(part[:2])]) for part in CHAIN))
    found = relative_h1_loss(prediction, target, [wide], mask)
    assert torch.equal(found, short)
    found.sum().backward()
    assert bool(torch.isfinite(prediction.grad).all())
    assert bool((prediction.grad[:, :, 3:] == 0).all())


def test_what_is_not_finite_is_told():
    target = draw(2, 2, 3, 1)
    prediction = target + draw(2, 2, 3, 1, seed=1)
    prediction[1, 0, 2] = math.nan
    assert torch.isfinite(relative_h1_loss(prediction, target, [CHAIN])).tolist() == [True, False]


def test_channels_count_by_their_weights():
    prediction, target = draw(3, 4, 3, 2), draw(3, 4, 3, 2, seed=1)
    alone = [relative_h1_loss(prediction[..., [c]], target[..., [c]], [CHAIN]) for c in range(2)]
    found = relative_h1_loss(prediction, target, [CHAIN], weights=torch.tensor([0.5, 1.5], dtype=torch.float64))
    torch.testing.assert_close(found, 0.25 * alone[0] + 0.75 * alone[1])
