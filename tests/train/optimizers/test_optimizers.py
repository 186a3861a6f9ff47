"""Which optimizer moves what, and the state of all of them by name."""

from __future__ import annotations

import pytest
import torch

from calm_pde.errors import FileError
from calm_pde.models import CalmConfig
from calm_pde.train.optimizers import OptimizerName, Optimizers, optimizers_of


def stepped(model: torch.nn.Module, optimizer: Optimizers, seed: int) -> None:
    torch.manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_state_goes_out_and_in_by_name(name: OptimizerName) -> None:
    first, second = CalmConfig.preset("burgers_1d").build(seed=0), CalmConfig.preset("burgers_1d").build(seed=0)
    one, two = optimizers_of(first, name, 1e-2, 1e-4), optimizers_of(second, name, 1e-2, 1e-4)
    stepped(first, one, 1)
    second.load_state_dict(first.state_dict())
    two.load_state(second, one.state(first))
    stepped(first, one, 2)
    stepped(second, two, 2)
    for left, right in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(left, right)


def test_every_parameter_has_one_optimizer() -> None:
    model = CalmConfig.preset("cylinder_2d").build()
    found = optimizers_of(model, "muon", 1e-2, 1e-4)
    moved = [parameter for part in found.parts for group in part.param_groups for parameter in group["params"]]
    assert len(moved) == len(set(moved)) == len(list(model.parameters()))


def test_the_state_of_another_model_is_refused() -> None:
    model = CalmConfig.preset("burgers_1d").build()
    with pytest.raises(FileError, match=r"encoder\.0\.nothing/momentum does not belong to this model"):
        optimizers_of(model, "muon", 1e-2, 0.0).load_state(model, {"encoder.0.nothing/momentum": torch.zeros(1)})


def test_the_rate_reaches_all() -> None:
    model = CalmConfig.preset("burgers_1d").build()
    found = optimizers_of(model, "muon", 1e-2, 0.0)
    found.set_rate(0.5)
    assert found.rate == 0.5
    assert {group["lr"] for part in found.parts for group in part.param_groups} == {0.5}
