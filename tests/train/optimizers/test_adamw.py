"""Weight-decay groups of AdamW."""

from __future__ import annotations

import torch

from calm_pde.models import CalmConfig
from calm_pde.train.optimizers.adamw import adamw, decays


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


def test_betas_reach_the_optimizer() -> None:
    assert adamw(torch.nn.Linear(2, 2), 1e-3, 0.0, (0.9, 0.99)).param_groups[0]["betas"] == (0.9, 0.99)
