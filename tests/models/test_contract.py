"""What every model of the registry keeps, whatever is inside."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError, InputError
from calm_pde.geometry import Box
from calm_pde.models import MODELS
from calm_pde.models.draws import Draws
from calm_pde.models.stepwise import Stepwise
from calm_pde.records.inputs import Frames, Inputs
from calm_pde.surrogate.surrogate import Surrogate
from tests.clouds import random_cloud, relative_error
from tests.models.contract import CASES, STEADY, TOLD, own_meshes, shared_mesh, surrogate_of

EVERY = CASES + TOLD
every_model = pytest.mark.parametrize("case", EVERY, ids=str)
scattered = pytest.mark.parametrize("case", [case for case in EVERY if case.scattered], ids=str)
on_grids = pytest.mark.parametrize("case", [case for case in CASES if not case.scattered], ids=str)
with_queries = pytest.mark.parametrize("case", [case for case in EVERY if case.queries], ids=str)
step_by_step = pytest.mark.parametrize("case", [case for case in EVERY if not case.any_time], ids=str)
LEARN_STEADY = {"calm", *(case.name for case in STEADY)}
OF_SAMPLES = ("parameters", "signals", "signal_times")
BESIDE = ("features", "cells", *OF_SAMPLES)


def sample(call, place):
    """One sample of a call, without what is masked."""
    own = call["points"].ndim == 3
    real = call["mask"][place] if "mask" in call else slice(None)
    found = {
        "values": call["values"][place : place + 1, real],
        "points": call["points"][place][real] if own else call["points"],
    }
    if "node_type" in call:
        found["node_type"] = call["node_type"][place][real] if own else call["node_type"]
    if "features" in call:
        found["features"] = call["features"][place : place + 1, real]
    if "cells" in call:  # what is real stands first
        found["cells"] = call["cells"][place] if own else call["cells"]
    return found | {name: call[name][place : place + 1] for name in OF_SAMPLES if name in call}, real


def beside(call):
    """The conditions of a call."""
    return {name: call[name] for name in BESIDE if name in call}


def test_every_model_of_the_registry_is_under_contract():
    """Without conditions and with them, as all declare to take them."""
    assert {case.name for case in CASES} == set(MODELS)
    assert {case.name for case in TOLD} == set(MODELS)
    assert all(case.build().config.abilities.conditions for case in EVERY)


@every_model
def test_gradient_reaches_every_used_parameter(case):
    model = case.build().double()
    model(**shared_mesh(case), num_steps=2).square().sum().backward()
    learned = {name: value.grad for name, value in model.named_parameters() if not name.endswith(case.unfelt or ("?",))}
    assert {name for name, grad in learned.items() if grad is None or float(grad.abs().max()) < 1e-12} == set()


@every_model
def test_samples_of_a_batch_do_not_see_each_other(case):
    model, call = case.build().double(), shared_mesh(case)
    together = model(**call, num_steps=2)
    assert together.shape == (3, 2, *call["values"].shape[1:])
    for place in range(3):
        assert relative_error(model(**sample(call, place)[0], num_steps=2), together[place : place + 1]) < 1e-11


@every_model
def test_order_of_points_does_not_matter(case):
    model, call = case.build().double(), shared_mesh(case)
    order = torch.randperm(len(call["points"]), generator=torch.Generator().manual_seed(3))
    moved = {name: value[:, order] for name, value in call.items() if name in ("values", "features")} | {
        name: value[order] for name, value in call.items() if name in ("points", "node_type")
    }
    moved = beside(call) | moved | ({"cells": order.argsort()[call["cells"]]} if "cells" in call else {})
    assert relative_error(model(**moved, num_steps=2), model(**call, num_steps=2)[:, :, order]) < 1e-11


@scattered
def test_masked_points_are_never_read_and_answered_with_zero(case):
    model, call = case.build().double(), own_meshes(case)
    together = model(**call, num_steps=2)
    for place in range(2):
        alone, real = sample(call, place)
        assert relative_error(together[place][:, real], model(**alone, num_steps=2)[0]) < 1e-11
        assert bool((together[place][:, ~real] == 0).all())
    rolled = model.rollout(**call, times=[1.0, 2.0])
    assert relative_error(rolled[:, 1:], together) < 1e-11
    assert bool(rolled.isfinite().all())


@scattered
def test_one_mesh_with_a_mask_per_sample(case):
    model, call = case.build().double(), shared_mesh(case, batch=2)
    count = len(call["points"])
    mask = torch.arange(count) < torch.tensor([[count], [count - 5]])
    together = model(**call, mask=mask, num_steps=2)
    assert relative_error(together[:1], model(**sample(call, 0)[0], num_steps=2)) < 1e-11
    fewer = beside(call) | {
        name: value[..., : count - 5] if name == "node_type" else value[..., : count - 5, :]
        for name, value in call.items()
        if name not in (*OF_SAMPLES, "cells")
    }
    if "cells" in call:
        fewer["cells"] = call["cells"][(call["cells"] < count - 5).all(dim=1)]
    assert relative_error(together[1, :, : count - 5], model(**sample(fewer, 1)[0], num_steps=2)[0]) < 1e-11


@with_queries
@pytest.mark.parametrize("make", [shared_mesh, own_meshes])
def test_queries_are_answered_anywhere(case, make):
    model, call = case.build().double(), make(case)
    asked = random_cloud(6, case.dim, seed=9)
    there = model(**call, num_steps=2, queries=asked)
    assert there.shape == (len(call["values"]), 2, 6, case.channels)
    assert relative_error(model(**call, num_steps=2, queries=asked[2:]), there[:, :, 2:]) < 1e-11
    own = asked.expand(len(call["values"]), 6, case.dim)
    assert relative_error(model(**call, num_steps=2, queries=own), there) < 1e-11
    first = call["points"][0, :4] if call["points"].ndim == 3 else call["points"][:4]
    assert relative_error(model(**call, num_steps=2, queries=first)[0], model(**call, num_steps=2)[0, :, :4]) < 1e-11


@every_model
def test_rollout_and_forward_agree(case):
    model, call = case.build().double(), shared_mesh(case)
    whole = model.rollout(**call, times=[1.0, 2.0, 3.0])
    assert relative_error(whole[:, 1:], model(**call, num_steps=3)) < 1e-12
    assert relative_error(model.rollout(**call, times=[2.0]), whole[:, [0, 2]]) < 1e-12
    assert relative_error(model.rollout(**call, times=[]), whole[:, :1]) < 1e-12


@every_model
def test_training_is_answered_with_the_rollout(case):
    """From frame 0 alone: the true frames behind it move only what is added, which is a number per window or nothing."""
    model, call = case.build().double(), shared_mesh(case)
    rolled, added = case.build(**case.trained).double().rollout(**call, times=[1.0, 2.0]), []
    for shift in (1, 2):
        true = torch.stack([call["values"].roll(shift * frame, dims=0) for frame in range(3)], dim=1)
        frames = Frames(true, call["points"], None, call.get("node_type"), **beside(call))
        answer = model.training_answer(frames, [1.0, 2.0])
        assert relative_error(answer.predicted, rolled) < 1e-12
        added.append(torch.as_tensor(answer.added).expand(3))
    assert torch.equal(*added) is not bool(getattr(model.config, "consistency", 0.0))
    assert float(added[0].detach().min()) >= 0


@step_by_step
def test_only_whole_frames_are_answered(case):
    model, call = case.build().double(), shared_mesh(case)
    with pytest.raises(InputError, match=r"times: expected whole frames.*got 1\.5 frames.*calm"):
        model.rollout(**call, times=[1.0, 1.5])
    with pytest.raises(InputError, match="num_steps: expected at least 1"):
        model(**call, num_steps=0)


@step_by_step
def test_later_frames_come_from_earlier_ones(case):
    model, call = case.build().double(), shared_mesh(case)
    if not isinstance(model, Stepwise):
        pytest.skip("steps in its own latent space")
    rolled = model.rollout(**call, times=[1.0, 2.0])
    assert torch.equal(rolled[:, 0], call["values"])
    again = {name: value for name, value in call.items() if name != "values"}
    assert relative_error(model.following(rolled[:, :2], **again), rolled[:, 1:]) < 1e-12


@scattered
def test_steps_from_many_frames_are_steps_from_each(case):
    """On padded meshes of their own, which each frame has from its sample."""
    model, call = case.build().double().eval(), own_meshes(case)
    if not model.config.abilities.frame_to_frame:
        pytest.skip("steps in its own latent space")
    states = torch.stack([call["values"], 0.5 * call["values"], call["values"] - 1.0], dim=1)
    frames = Frames(states, call["points"], mask=call["mask"], node_type=call.get("node_type"), **beside(call))
    together = model.following(states, frames.points, frames.mask, frames.node_type, **frames.conditions)
    for place in range(3):
        given = frames.since(place).start
        assert relative_error(model(given.values, given.points, 1, **given.told), together[:, place : place + 1]) < 1e-11


@every_model
def test_same_seed_same_bits(case):
    before = torch.get_rng_state()
    first, again, other = (case.build(seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), again.state_dict().values(), strict=True))
    call = shared_mesh(case)
    answers = [model.double()(**call, num_steps=1) for model in (first, again, other)]
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])


@every_model
def test_a_saved_surrogate_gives_the_same_bits(case, tmp_path):
    if case.told:
        pytest.skip("tests/surrogate: what a user tells has names and units")
    surrogate = surrogate_of(case, case.build(seed=5))
    surrogate.save(tmp_path / "surrogate")
    loaded = Surrogate.load(tmp_path)
    assert not any(value.is_complex() for value in loaded.model.state_dict().values())
    call = shared_mesh(case, batch=2)
    arguments = {
        "initial": call["values"].numpy(),
        "points": 2 * call["points"].numpy(),
        "node_type": call["node_type"].numpy() if "node_type" in call else None,
        "cells": call["cells"].numpy() if "cells" in call else None,
    }
    found = surrogate.solve(**arguments)
    assert found.shape == (2, 3, *call["values"].shape[1:])
    assert (loaded.solve(**arguments) == found).all()


@every_model
def test_single_precision_and_autocast_stay_close(case):
    model, call = case.build(), shared_mesh(case)
    single = {name: value.float() if value.is_floating_point() else value for name, value in call.items()}
    with torch.no_grad():
        found = model(**single, num_steps=2)
        with torch.autocast("cpu", torch.bfloat16):
            coarse = model(**single, num_steps=2)
        exact = model.double()(**call, num_steps=2)
    assert found.dtype == torch.float32
    assert relative_error(found, exact) < 1e-4
    assert relative_error(coarse, exact) < 0.1


def in_type(call, dtype):
    """A call with all its numbers in a type."""
    exact = ("signal_times",)
    return {name: value.to(dtype) if value.is_floating_point() and name not in exact else value for name, value in call.items()}


@every_model
@pytest.mark.parametrize("make", [shared_mesh, own_meshes], ids=["shared", "own meshes"])
def test_weights_in_bfloat16_are_computed_with_or_refused_by_name(case, make):
    if make is own_meshes and not case.scattered:
        pytest.skip("lives on one grid")
    model, call = case.build(seed=1).to(torch.bfloat16), in_type(make(case), torch.bfloat16)
    if not model.config.abilities.bfloat16_weights:
        told = f"weights: expected float32 or float64 in {model.config.title}, got bfloat16. .*\\.float\\(\\).*train.precision"
        for asked in (lambda: model(**call, num_steps=2), lambda: model.rollout(**call, times=[1.0])):
            with pytest.raises(InputError, match=told):
                asked()
        return
    found = model(**call, num_steps=2)
    assert found.dtype == torch.bfloat16
    same_weights = case.build(seed=1).to(torch.bfloat16).double()
    assert (
        relative_error(found, same_weights(**in_type(call, torch.float64), num_steps=2)) < 0.15
    )  # of eight bits, in ten layers
    if make is shared_mesh:
        kinds = {"node_type": call["node_type"].numpy()} if "node_type" in call else {}
        if not case.told:
            solved = surrogate_of(case, model).solve(
                call["values"].float().numpy(), 2 * call["points"].float().numpy(), **kinds
            )
            assert solved.dtype == np.float32
            assert np.isfinite(solved).all()
        if model.config.abilities.bakes:
            baked = model.bake(call["points"], node_type=call.get("node_type"))
            assert relative_error(baked(call["values"], 2, **beside(call)), found) < 0.1
    found.square().sum().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


@every_model
def test_weights_in_float16_are_refused_by_name(case):
    """With the types that this model does take."""
    model, call = case.build().half(), in_type(shared_mesh(case), torch.float16)
    taken = "float32, float64 or bfloat16" if model.config.abilities.bfloat16_weights else "float32 or float64"
    told = f"weights: expected {taken} in {model.config.title}, got float16, in which squared distances vanish.*autocast"
    for asked in (lambda: model(**call, num_steps=2), lambda: model.rollout(**call, times=[1.0])):
        with pytest.raises(InputError, match=told):
            asked()


@on_grids
def test_what_needs_scattered_points_is_refused(case):
    model, call = case.build().double(), shared_mesh(case)
    points = call["points"]
    apart = torch.stack([points, points + 0.1, points])
    wrong = [
        ({"points": random_cloud(len(points), case.dim)}, "points: expected a full grid.*geo_fno"),
        ({"points": apart}, "points: expected one mesh for all samples.*3 that differ.*geo_fno"),
        ({"mask": torch.arange(len(points)).expand(3, -1) > 0}, "mask: expected none.*3 masked points.*geo_fno"),
    ]
    for changes, message in wrong[1 if case.dim == 1 else 0 :]:  # any points on a line are a grid
        with pytest.raises(InputError, match=message):
            model(**(call | changes), num_steps=1)
    repeated = torch.cat([points[:1], points[:-1]])
    with pytest.raises(InputError, match="points: expected a full grid"):
        model(**(call | {"points": repeated}), num_steps=1)


@pytest.mark.parametrize("case", [case for case in CASES if not case.queries], ids=str)
def test_queries_are_refused_where_there_is_no_answer(case):
    with pytest.raises(InputError, match=r"queries: expected none.*5 of them.*calm"):
        case.build().double()(**shared_mesh(case), num_steps=1, queries=random_cloud(5, case.dim))


@every_model
def test_what_is_declared_is_true(case):
    """Free queries, times between frames, a baked form and single steps: an answer, or a refusal by name."""
    model, call = case.build().double().eval(), shared_mesh(case)
    able = model.config.abilities
    assert (able.irregular_points, able.free_queries, able.any_times) == (case.scattered, case.queries, case.any_time)
    state, told = (call["values"], call["points"]), beside(call)
    kinds = {"node_type": call["node_type"]} if "node_type" in call else {}
    if able.free_queries:
        assert model(**call, num_steps=1, queries=random_cloud(5, case.dim)).shape == (3, 1, 5, case.channels)
    if able.any_times:
        assert model(**call, times=[0.5, 1.25]).shape[:2] == (3, 2)
    else:
        with pytest.raises(InputError, match="times: expected whole frames"):
            model.rollout(*state, [0.5], **kinds, **told)
    if able.bakes:
        torch.testing.assert_close(model.bake(call["points"], **kinds)(state[0], 2, **told), model(**call, num_steps=2))
    else:
        with pytest.raises(InputError, match=f"bake: expected a model that can bake, got {model.config.title}"):
            model.bake(call["points"])
    if able.frame_to_frame:
        torch.testing.assert_close(model.following(state[0][:, None], state[1], **kinds, **told), model(**call, num_steps=1))
    else:
        with pytest.raises(InputError, match=f"expected a model that can go from frame to frame, got {model.config.title}"):
            model.following(state[0][:, None], state[1])
    first = model.rollout(*state, [1.0], **kinds, **told)[:, 0]
    assert able.reconstructs != torch.equal(first, state[0])


@every_model
def test_stages_are_declared_or_refused_by_name(case):
    """Every stage has a part that learns and, where its windows are its own, a loss per window of its length."""
    model, call = case.build().double(), shared_mesh(case)
    for name, frames in model.config.abilities.stages:
        learning = {id(weight) for weight in model.part(name).parameters()}
        assert learning
        assert learning <= {id(weight) for weight in model.parameters()}
        if frames is None:
            continue
        windows = Frames(call["values"][:, None].expand(-1, frames, -1, -1), call["points"], **beside(call))
        losses = model.stage_losses(name, windows, Draws([[place] for place in range(3)]))
        assert losses.shape == (3,)
        losses.sum().backward()
        assert any(weight.grad is not None for weight in model.part(name).parameters())
    if not model.config.abilities.stages:
        windows = Frames(call["values"][:, None], call["points"])
        for ask in (lambda: model.part("one"), lambda: model.stage_losses("one", windows, Draws([[0]]))):
            with pytest.raises(InputError, match=f"can learn in stages, got {model.config.title}, which can't"):
                ask()


@every_model
def test_every_configuration_says_its_task(case):
    """Those that can learn rollouts alone write no word of it, and refuse another one."""
    config = case.build().config
    assert config.task == "rollout"
    of_time = {"staged": False, "consistency": 0.0, "inverse_encoding": 0.0, "inverse_decoding": 0.0, "signals": 0}
    steady = case.config | {"task": "steady"} | {name: of_time[name] for name in of_time if name in type(config).model_fields}
    if case.name in LEARN_STEADY:
        assert type(config).model_validate(steady).task == "steady"
        return
    assert "task" not in config.model_dump()
    with pytest.raises(ConfigError, match=r"task.*'rollout'"):
        type(config).model_validate(steady)


@every_model
def test_the_inside_is_shown_or_refused_by_name(case):
    model, call = case.build().double().eval(), shared_mesh(case)
    values, points = call["values"], call["points"]
    start = Inputs(values, points, node_type=call.get("node_type"), **beside(call))
    if not model.config.abilities.shows_inside:
        box = Box((0.0,) * case.dim, (1.0,) * case.dim)
        asks = [
            model.query_points,
            model.latent_shape,
            lambda: model.kernel_weights(points, box),
            lambda: model.tokens(start),
            lambda: model.fields_of_tokens(values, points, [1.0], points, start),
        ]
        for ask in asks:
            with pytest.raises(InputError, match=f"can show its .*, got {model.config.title}, which can't"):
                ask()
        return
    z, positions = model.tokens(start)
    assert z.shape[1:] == model.latent_shape()
    fields = model.fields_of_tokens(z, positions, [1.0], points, start)
    torch.testing.assert_close(fields[:, 1:], model(**call, num_steps=1))
    weights = model.state_dict()
    assert all(torch.equal(layer.positions, weights[f"{layer.weights}.queries"]) for layer in model.query_points())


@every_model
def test_a_peak_is_predicted_or_not_known(case):
    peak = case.build().predicted_peak(50, 2, 1)
    assert peak is None or peak > 0


@pytest.mark.parametrize("kind", MODELS)
def test_what_does_not_decay_is_there(kind):
    """Every last name that a kind of model keeps from decay belongs to a parameter in one of its cases."""
    models = [case.build() for case in CASES if case.name == kind]
    ends = {name.rsplit(".", 1)[-1] for model in models for name, _ in model.named_parameters()}
    assert set(models[0].undecayed) <= ends


@every_model
def test_a_configuration_survives_json(case):
    config = MODELS[case.name].model_validate(case.config)
    assert MODELS[case.name].model_validate_json(config.model_dump_json()) == config
