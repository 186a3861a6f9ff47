"""A model that is told more starts as the one that it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from calm_pde.errors import ConfigError
from calm_pde.models.widening import widened_weights
from tests.clouds import relative_error
from tests.models.contract import TOLD, Case, conditions, shared_mesh

NOTHING = {"parameters": 0, "signals": 0, "features": 0}
SOME = {"parameters": 1, "signals": 1, "features": 1}
MORE = {"parameters": 3, "signals": 2, "features": 2}
SILENT = {"calm": "modulator.reduce.", "aroma": "dynamics.network.told.", "upt": ".modulation."}
"""What starts at zero in models that are told something, and is not there in others."""


def call(case: Case, told: dict[str, int]) -> dict[str, Any]:
    """The same state whatever is told, and of conditions the first ones."""
    whole = Case(case.name, case.config | MORE)
    beside = {name: value[..., : told.get(name)] for name, value in conditions(whole, 3, 24).items()}
    plain = shared_mesh(Case(case.name, case.config | NOTHING, scattered=case.scattered))
    beside = {name: value for name, value in beside.items() if value.shape[-1]}
    return plain | (beside if "signals" in beside else {name: beside[name] for name in beside if name != "signal_times"})


@pytest.mark.parametrize(("before", "after"), [(NOTHING, MORE), (SOME, MORE)], ids=["nothing", "some"])
@pytest.mark.parametrize("case", [case for case in TOLD if case.dim == 1], ids=str)
def test_the_answer_is_the_old_one_whatever_more_is_told(case, before, after):
    old = case.build(seed=1, **before).double()
    new = case.build(seed=2, **after).double()
    new.load_state_dict(widened_weights(old.config, old.state_dict(), new))
    asked, wanted = call(case, after), old(**call(case, before), num_steps=2)
    for name, parameter in new.named_parameters():  # stirred, so that these do not start without a word
        if before is NOTHING and SILENT.get(case.name, "?") in name:
            parameter.data.zero_()
    found = new(**asked, num_steps=2)
    assert relative_error(found, wanted) < 1e-10
    found.square().sum().backward()
    fresh, known = dict(new.named_parameters()), dict(old.named_parameters())
    grown = [name for name in new.reading() if name in fresh and name in known and fresh[name].shape != known[name].shape]
    assert grown
    assert all(fresh[name].grad is not None and float(fresh[name].grad.abs().max()) > 0 for name in grown)


def test_what_is_not_alike_is_refused():
    (case,) = [case for case in TOLD if case.name == "lno"]
    old = case.build(**SOME)
    weights = old.state_dict()
    with pytest.raises(ConfigError, match="expected the old one's settings but for parameters, signals and features"):
        widened_weights(old.config, weights, case.build(**MORE, width=16))
    with pytest.raises(ConfigError, match=r"model\.features: expected at least the old model's 1, got 0"):
        widened_weights(old.config, weights, case.build(**(MORE | {"features": 0})))
    same = widened_weights(old.config, weights, case.build(seed=3, **SOME))
    assert all(torch.equal(value, weights[name]) for name, value in same.items())
