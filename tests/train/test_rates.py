"""The learning rate of a step."""

from __future__ import annotations

import itertools

import pytest
import torch

from calm_pde.train.rates import learning_rate


def test_cosine_falls_to_zero_every_iteration_without_warm_up() -> None:
    rates = [learning_rate(step, 100, 1e-3, "cosine") for step in range(100)]
    assert rates[0] == 1e-3
    assert all(late < early for early, late in itertools.pairwise(rates))
    assert rates[50] == pytest.approx(5e-4)
    assert learning_rate(100, 100, 1e-3, "cosine") == pytest.approx(0, abs=1e-18)
    reference = torch.optim.lr_scheduler.CosineAnnealingLR(torch.optim.SGD([torch.zeros(1)], lr=1e-3), T_max=100)
    assert reference.get_last_lr()[0] == rates[0]


@pytest.mark.parametrize(("rise", "rise_from"), [(0.3, 25.0), (0.2, 1e4), (0.3, 1e4)])
def test_one_cycle_is_pytorchs(rise: float, rise_from: float) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-3, total_steps=1001, pct_start=rise, div_factor=rise_from
    )
    for step in range(1000):
        found = learning_rate(step, 1000, 1e-3, "one_cycle", rise=rise, rise_from=rise_from)
        assert found == pytest.approx(schedule.get_last_lr()[0], rel=2e-2, abs=1e-8)
        optimizer.step()
        schedule.step()
    assert learning_rate(3, 10, 1e-3, "constant") == 1e-3


def test_exponential_is_pytorchs_and_ends_where_it_is_told() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-4)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.01 ** (1 / 200))
    for step in range(201):
        assert learning_rate(step, 200, 1e-4, "exponential", lowest=1e-6) == pytest.approx(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert learning_rate(200, 200, 1e-4, "exponential", lowest=1e-6) == pytest.approx(1e-6)


def test_cosine_ends_where_it_is_told() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100, eta_min=1e-5)
    for step in range(101):
        assert learning_rate(step, 100, 1e-3, "cosine", lowest=1e-5) == pytest.approx(schedule.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        schedule.step()


def test_warm_up_rises_in_a_straight_line() -> None:
    plain = [learning_rate(step, 100, 1.0, "cosine") for step in range(100)]
    warm = [learning_rate(step, 100, 1.0, "cosine", warm_up=0.1) for step in range(100)]
    assert warm[10:] == plain[10:]
    assert [rate / level for rate, level in zip(warm[:10], plain[:10], strict=True)] == pytest.approx(
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    )


def test_trapezoid_is_level_and_falls_in_a_straight_line() -> None:
    rates = [learning_rate(step, 100, 2.0, "trapezoid", lowest=0.2, warm_up=0.1, fall=0.25) for step in range(101)]
    assert rates[9:76] == [2.0] * 67
    assert rates[0] == pytest.approx(0.2)
    assert rates[100] == pytest.approx(0.2)
    assert [late - early for early, late in itertools.pairwise(rates[75:])] == pytest.approx([-1.8 / 25] * 25)
