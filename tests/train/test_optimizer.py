"""Weight-decay groups, learning rates and the optimizer's state by name."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from calm_pde.models import CalmConfig
from calm_pde.train.optimizer import adamw, decays, learning_rate, load_optimizer_state, optimizer_state


def test_all_but_biases_norms_and_query_positions_decay() -> None:
    model = CalmConfig.preset("cylinder_2d").build()
    decaying = decays(model)
    assert decaying.keys() == {name for name, _ in model.named_parameters()}
    still = {name for name, decay in decaying.items() if not decay}
    assert all(name.endswith((".bias", ".queries")) or "norm_" in name for name in still)
    assert {"encoder.0.queries", "decoder.1.queries", "encoder.0.bias", "encoder.0.mix.bias"} <= still
    assert "processor.blocks.0.attention.norm_query.weight" in still
    for part in ("filters", "mix.weight", "mlp.expand.weight"):
        assert any(decay and part in name for name, decay in decaying.items()), part
    moved = {name for name, decay in decaying.items() if decay and "kernel" in name}
    assert any("scale" in name or "gamma" in name or "modulation" in name for name in moved), moved


def test_a_step_with_zero_gradient_shrinks_just_the_decaying_ones() -> None:
    model = CalmConfig.preset("burgers_1d").build()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    adamw(model, 0.1, 0.5).step()
    for name, value in model.named_parameters():
        factor = 1 - 0.1 * 0.5 if decays(model)[name] else 1.0
        torch.testing.assert_close(value.detach(), before[name] * factor)


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


def test_cosine_ends_where_it_is_told() -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100, eta_min=1e-5)
    for step in range(101):
        assert learning_rate(step, 100, 1e-3, "cosine", lowest=1e-5) == pytest.approx(schedule.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        schedule.step()


def test_betas_reach_the_optimizer() -> None:
    assert adamw(torch.nn.Linear(2, 2), 1e-3, 0.0, (0.9, 0.99)).param_groups[0]["betas"] == (0.9, 0.99)


def test_state_goes_out_and_in_by_name() -> None:
    def stepped(model: torch.nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
        torch.manual_seed(seed)
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()

    first, second = CalmConfig.preset("burgers_1d").build(seed=0), CalmConfig.preset("burgers_1d").build(seed=0)
    one, two = adamw(first, 1e-2, 1e-4), adamw(second, 1e-2, 1e-4)
    stepped(first, one, 1)
    second.load_state_dict(first.state_dict())
    load_optimizer_state(second, two, optimizer_state(first, one))
    stepped(first, one, 2)
    stepped(second, two, 2)
    for left, right in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(left, right)
    assert math.isfinite(float(next(iter(optimizer_state(first, one).values())).float().sum()))
