"""What models that go from frame to frame keep of their contract on steady problems: features of points in, one field out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import calm_pde as cp
from calm_pde.engine.plain import plain_attention
from calm_pde.errors import ConfigError, InputError
from calm_pde.models import MODELS
from calm_pde.records.inputs import Frames
from calm_pde.surrogate.surrogate import Surrogate
from tests.clouds import random_cloud, relative_error
from tests.models.contract import CASES, STEADY, Case, own_meshes, shared_mesh
from tests.train.overfit import overfitted, steady
from tests.train.runs import single_thread

every_model = pytest.mark.parametrize("case", STEADY, ids=str)
scattered = pytest.mark.parametrize("case", [case for case in STEADY if case.scattered], ids=str)
STEPPED = [case for case in CASES if case.dim == 1 and case.name in {case.name for case in STEADY}]
FORMS = [case for case in STEADY if case.scattered and case.dim == 2]


def sample(call: dict[str, Any], place: int) -> tuple[dict[str, Any], Any]:
    """One sample of a call, without what is masked; and which of its points are not."""
    own = call["points"].ndim == 3
    real = call["mask"][place] if "mask" in call else slice(None)
    found = {"values": call["values"][place : place + 1, real], "points": call["points"]}
    if own:
        found["points"] = call["points"][place][real]
    if "node_type" in call:
        found["node_type"] = call["node_type"][place][real] if own else call["node_type"]
    if "parameters" in call:
        found["parameters"] = call["parameters"][place : place + 1]
    return found, real


@every_model
def test_gradient_reaches_every_used_parameter(case: Case) -> None:
    model = case.build().double()
    model(**shared_mesh(case)).square().sum().backward()
    unfelt = {
        name for name, value in model.named_parameters() if value.grad is None or float(value.grad.detach().abs().max()) < 1e-12
    }
    assert unfelt == set()


@every_model
def test_one_answer_that_knows_no_batch_mate(case: Case) -> None:
    model, call = case.build().double(), shared_mesh(case)
    together = model(**call)
    assert together.shape == (3, 1, call["values"].shape[1], case.config["out_channels"])
    assert torch.equal(model(**call, num_steps=1), together)
    for place in range(3):
        assert relative_error(model(**sample(call, place)[0]), together[place : place + 1]) < 1e-11


@every_model
def test_order_of_points_does_not_matter(case: Case) -> None:
    model, call = case.build().double(), shared_mesh(case)
    order = torch.randperm(len(call["points"]), generator=torch.Generator().manual_seed(3))
    moved = call | {name: call[name][order] for name in ("points", "node_type") if name in call}
    moved["values"] = call["values"][:, order]
    assert relative_error(model(**moved), model(**call)[:, :, order]) < 1e-11


@scattered
def test_masked_points_are_never_read_and_answered_with_zero(case: Case) -> None:
    model, call = case.build().double(), own_meshes(case)
    together = model(**call)
    for place in range(2):
        alone, real = sample(call, place)
        assert relative_error(together[place][:, real], model(**alone)[0]) < 1e-11
        assert bool((together[place][:, ~real] == 0).all())


@every_model
def test_queries_are_answered_as_points_are_or_refused_by_name(case: Case) -> None:
    model, call = case.build().double(), own_meshes(case) if case.scattered else shared_mesh(case)
    if not case.queries:
        with pytest.raises(InputError, match=rf"queries: expected none, since {model.config.title}.*5 of them.*calm"):
            model(**call, queries=random_cloud(5, case.dim))
        return
    for given in (call, shared_mesh(case)):
        here, first = model(**given), given["points"][:, :4] if given["points"].ndim == 3 else given["points"][:4]
        assert relative_error(model(**given, queries=first), here[:, :, :4]) < 1e-11
        asked = random_cloud(6, case.dim, seed=9)
        there = model(**given, queries=asked)
        assert relative_error(model(**given, queries=asked[2:]), there[:, :, 2:]) < 1e-11


@every_model
def test_features_and_parameters_are_used(case: Case) -> None:
    model, call = case.build().double(), shared_mesh(case)
    found = model(**call)
    for name in {"values", "parameters"} & set(call):
        moved = call[name].clone()
        moved.view(3, -1)[0, 0] += 1.0
        changed = model(**call | {name: moved})
        assert relative_error(changed[0], found[0]) > 1e-8
        assert relative_error(changed[1:], found[1:]) < 1e-12


@every_model
def test_training_asks_for_the_one_answer(case: Case) -> None:
    model, call = case.build().double(), shared_mesh(case)
    told = {name: call[name] for name in ("node_type", "parameters") if name in call}
    answer = model.training_answer(Frames(call["values"][:, None], call["points"], **told), [])
    assert relative_error(answer.predicted, model(**call)) < 1e-14
    assert answer.added == 0.0


@every_model
def test_what_needs_time_is_refused_by_name(case: Case) -> None:
    model, call = case.build().double(), shared_mesh(case)
    assert not model.config.abilities.frame_to_frame
    with pytest.raises(InputError, match=r"num_steps: expected 1 \(or nothing\) of a model with task='steady', got 2"):
        model(**call, num_steps=2)
    for asked in (lambda: model.rollout(**call, times=[1.0]), lambda: model.following(call["values"][:, None], call["points"])):
        with pytest.raises(InputError, match=f"can go from frame to frame, got {model.config.title}, which can't.*steady"):
            asked()
    with pytest.raises(ConfigError, match="signals change in time, and task 'steady' has none"):
        MODELS[case.name].model_validate(case.config | {"signals": 1})
    with pytest.raises(ConfigError, match="a frame follows a frame: out_channels must be 3, got 2"):
        MODELS[case.name].model_validate(case.config | {"task": "rollout"})
    config = MODELS[case.name].model_validate(case.config)
    assert MODELS[case.name].model_validate_json(config.model_dump_json()) == config


@pytest.mark.parametrize("case", STEADY + STEPPED, ids=str)
def test_second_derivatives_are_those_of_central_differences(case: Case) -> None:
    """By what is given, along a direction; in time each block is computed again on the way back."""
    model, call = case.build().double().eval(), shared_mesh(case)
    direction = random_cloud(call["values"].numel(), 1, seed=5).view_as(call["values"]) - 0.5

    def slope(values: Tensor, again: bool) -> tuple[Tensor, Tensor]:
        values = values.detach().requires_grad_()
        with plain_attention():  # as a surrogate's `differentiable` does
            answer = model(**call | {"values": values}, num_steps=1)
        (found,) = torch.autograd.grad(answer.square().sum(), values, create_graph=again)
        return (found * direction).sum(), values

    number, values = slope(call["values"], again=True)
    (second,) = torch.autograd.grad(number, values)
    ahead, behind = (slope(call["values"] + step * direction, again=False)[0] for step in (1e-5, -1e-5))
    assert relative_error((second * direction).sum(), (ahead - behind) / 2e-5) < 1e-6


@pytest.mark.parametrize("case", FORMS, ids=str)
def test_a_run_and_what_it_keeps(case: Case, tmp_path: Path) -> None:
    """Trained on features, saved, loaded, and asked in physical units, in any order of points."""
    form = {key: value for key, value in case.config.items() if key not in ("node_types", "in_channels", "out_channels")}
    told = {"parameters": 0, "kind": case.name}
    with single_thread():
        overfitted(steady(), form | told, tmp_path, epochs=2, feeding="rollout")
    surrogate, data = Surrogate.load(tmp_path / "run"), cp.DataFile(tmp_path / "a.h5").trajectory(0)
    assert surrogate.task == "steady"
    found = surrogate.solve(data.features, data.points)
    assert found.shape == (1, 150, 1)
    assert np.isfinite(found).all()
    order = np.random.default_rng(0).permutation(150)
    np.testing.assert_allclose(surrogate.solve(data.features[order], data.points[order]), found[:, order], rtol=1e-4, atol=1e-5)
    told = surrogate.solve([data.features, data.features[:90]], [data.points, data.points[:90]])
    np.testing.assert_allclose(told[0], found, rtol=1e-4, atol=1e-5)
    assert told[1].shape == (1, 90, 1)
