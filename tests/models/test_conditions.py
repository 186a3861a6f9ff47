"""What a model is told beside a state: at the door, over time, in what it is fed; and no trace of it where there is nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import torch

from calm_pde.errors import ConfigError, InputError
from calm_pde.models import MODELS
from calm_pde.models.conditions import Known, expanded, transitions
from calm_pde.records.inputs import Frames, Inputs
from calm_pde.records.signals import Signals
from tests.clouds import random_cloud, relative_error
from tests.models.contract import TOLD, Case, shared_mesh

every_model = pytest.mark.parametrize("case", TOLD, ids=str)
OVER_POINTS = ("galerkin", "gnot", "ono", "transolver")
STEPPING = [case for case in TOLD if case.name in ("fno", "ffno", "geo_fno", "lno", "pit", "gaot", *OVER_POINTS)]
LNO = next(case for case in TOLD if case.name == "lno")
CALM = next(case for case in TOLD if case.name == "calm" and case.dim == 2)


def without(case: Case) -> dict[str, Any]:
    return {name: value for name, value in case.config.items() if name not in ("parameters", "signals", "features")}


WRONG = [
    ("parameters", None, "parameters: expected .batch, parameter. with 2 of them, which this model is told, got none"),
    ("features", None, "features: expected .batch, point, feature. with 2 of them"),
    ("signals", None, "signals: expected .batch, knot, signal. with 1 of them"),
    ("parameters", lambda it: it[:, :1], r"parameters: expected shape .*3 samples with 2 of them, got shape \(3, 1\)"),
    ("parameters", lambda it: it[:2], r"parameters: expected shape .*got shape \(2, 2\)"),
    ("features", lambda it: it[:, 1:], "features: expected shape"),
    ("signals", lambda it: it[..., :0], "signals: expected shape"),
    ("parameters", lambda it: it.float(), r"parameters: expected a tensor of torch.float64.*torch.as_tensor"),
    ("parameters", lambda it: it * float("nan"), "parameters: expected finite numbers"),
    ("signals", lambda it: it / 0, "signals: expected finite numbers"),
    ("signal_times", lambda it: it[:, :3], "signal_times: expected shape"),
    ("signal_times", lambda it: it.flip(-1), "signal_times: expected strictly increasing"),
    ("signal_times", lambda it: it.bfloat16(), "signal_times: expected a tensor of float32 or float64"),
    (
        "signal_times",
        lambda it: it / 5,
        "signals: expected knots from frame 0 to frame 2, the last that is asked",
    ),
    ("signal_times", lambda it: it + 1, "signals: expected knots from frame 0"),
]


@pytest.mark.parametrize("case", [CALM, LNO], ids=str)
@pytest.mark.parametrize(("name", "change", "message"), WRONG)
def test_wrong_conditions_are_refused_by_name(case, name, change, message):
    model, call = case.build().double(), shared_mesh(case)
    call[name] = None if change is None else change(call[name])
    with pytest.raises(InputError, match=message):
        model(**call, num_steps=2)


@every_model
def test_a_model_without_conditions_refuses_them(case):
    told, call = shared_mesh(case), shared_mesh(Case(case.name, without(case), scattered=case.scattered))
    model = MODELS[case.name].model_validate(without(case)).build().double()
    for name in ("parameters", "features", "signals"):
        with pytest.raises(InputError, match=f"{name}: expected none, got some, and this model is not told them"):
            model(**call, **{name: told[name]}, num_steps=1)
    with pytest.raises(InputError, match="signal_times: expected none without signals"):
        model(**call, signal_times=told["signal_times"], num_steps=1)


@every_model
def test_nothing_of_conditions_stands_where_there_are_none(case):
    """In no dump, in no weight: a configuration that counts none is one that knows nothing of them."""
    kind = MODELS[case.name]
    plain, told = kind.model_validate(without(case)), kind.model_validate(case.config)
    assert kind.model_validate(without(case) | {"parameters": 0, "signals": 0, "features": 0}) == plain
    for written in (plain.model_dump(), plain.model_dump(mode="json"), json.loads(plain.model_dump_json())):
        assert not {"parameters", "signals", "features"} & set(written)
    assert told.model_dump() == plain.model_dump() | {"parameters": 2, "signals": 1, "features": 2}
    assert kind.model_validate_json(told.model_dump_json()) == told


@every_model
def test_every_condition_is_used(case):
    """Another number of any kind is another answer; a signal counts where it is after the first frame too."""
    model, call = case.build().double(), shared_mesh(case)
    found = model(**call, num_steps=2)
    for name, place in (("parameters", (0, 1)), ("features", (0, 3, 1)), ("signals", (0, 2, 0))):
        moved = call[name].clone()
        moved[place] += 1.0
        changed = model(**call | {name: moved}, num_steps=2)
        assert relative_error(changed[0], found[0]) > 1e-6, name
        assert torch.equal(changed[1:], found[1:]) or relative_error(changed[1:], found[1:]) < 1e-12


@every_model
def test_signals_count_by_their_course_alone(case):
    """Another knot on a straight line changes nothing, and knots at frames 0, 1, … need no times."""
    model, call = case.build().double(), shared_mesh(case)
    values = random_cloud(9, 1, seed=4).view(3, 3, 1)
    times = torch.arange(3, dtype=torch.float64)
    between = torch.stack([values[:, 0], values[:, :2].mean(dim=1), values[:, 1], values[:, 2]], dim=1)
    courses = [
        {"signals": values, "signal_times": None},
        {"signals": values, "signal_times": times},
        {"signals": values, "signal_times": times.expand(3, 3)},
        {"signals": between, "signal_times": torch.tensor([0.0, 0.5, 1.0, 2.0], dtype=torch.float64)},
    ]
    wanted, *others = [model(**call | course, num_steps=2) for course in courses]
    for found in others:
        assert relative_error(found, wanted) < 1e-12


@pytest.mark.parametrize("case", STEPPING, ids=str)
def test_prescribed_values_are_fed_back_and_never_answered(case):
    """A frame comes from the one before it with what is prescribed there; NaN prescribes nothing."""
    model, call = case.build().double(), shared_mesh(case)
    count, channels = call["values"].shape[1:]
    known = random_cloud(2 * 3 * count, channels, seed=5).view(3, 2, count, channels)
    known[:, :, 5:] = known[:, :, :, 1] = float("nan")
    plain = model(**call, num_steps=3)
    found = model(**call, prescribed=known, num_steps=3)
    assert torch.equal(found[:, 0], plain[:, 0])
    fed = torch.where(known.isnan(), found[:, :2], known)
    assert float((fed - found[:, :2]).detach().abs().max()) > 0.01
    told = {name: value for name, value in call.items() if name != "values"}
    states = torch.cat([call["values"][:, None], fed], dim=1)
    assert relative_error(model.following(states, **told), found) < 1e-12
    assert relative_error(model.rollout(**call, prescribed=known, times=[1.0, 3.0])[:, 1:], found[:, [0, 2]]) < 1e-12
    if case.queries:
        asked = model(**call, prescribed=known, num_steps=3, queries=call["points"][:4])
        assert relative_error(asked[:, 2], found[:, 2, :4]) < 1e-12
    for wrong, message in ((known[:, :, 1:], "prescribed: expected shape"), (known / 0, "NaN where nothing is, got infinity")):
        with pytest.raises(InputError, match=message):
            model(**call, prescribed=wrong, num_steps=3)


def test_each_frame_is_a_start_of_its_own():
    """Signals, and what is prescribed, are counted from there."""
    call = shared_mesh(CALM)
    told = {name: call[name] for name in ("parameters", "features", "signals", "signal_times")}
    values = torch.stack([call["values"], 2 * call["values"]], dim=1)
    frames = Frames(values, call["points"], None, call["node_type"], **told)
    later, each = frames.since(1), frames.each
    assert torch.equal(later.signal_times, call["signal_times"] - 1)
    assert torch.equal(later.start.values, 2 * call["values"])
    assert torch.equal(frames.since(1, 0.5).signal_times, call["signal_times"] - 0.5)
    assert frames.since(0) is frames
    known = replace(frames, prescribed=torch.zeros(3, 4, *call["values"].shape[1:]))
    assert known.since(3).prescribed.shape[1] == 1
    model = CALM.build().double()
    steps = model.following(values, call["points"], None, call["node_type"], **told)
    alone = [
        model(**frames.since(frame).start.told, values=values[:, frame], points=call["points"], num_steps=1) for frame in (0, 1)
    ]
    assert relative_error(steps, torch.cat(alone, dim=1)) < 1e-12
    flat = model(each.values, each.points, 1, **each.told)
    assert relative_error(flat.unflatten(0, (3, 2)).squeeze(2), steps) < 1e-12


def test_what_is_known_of_a_time_and_of_a_step():
    signals = Signals(torch.tensor([[0.0, 2.0]]).double(), torch.tensor([[[0.0], [4.0]]]).double())
    known = Known(torch.tensor([[7.0, 8.0]]).double(), signals)
    assert known.at([0.0, 0.5, 1.8]).tolist() == [[[7.0, 8.0, 0.0, 2.0], [7.0, 8.0, 1.0, 3.0], [7.0, 8.0, 3.6, 4.0]]]
    given = Inputs(
        torch.zeros(1, 3, 1).double(), torch.zeros(3, 2).double(), parameters=known.parameters, signals=signals.values
    )
    given = replace(given, signal_times=signals.times)
    assert transitions(given, 0, 2).tolist() == [[[7.0, 8.0, 0.0, 2.0], [7.0, 8.0, 2.0, 4.0]]]
    assert transitions(Inputs(given.values, given.points), 0, 2) is None
    assert list(given.told) == ["parameters", "signals", "signal_times"]
    four = expanded(given, 4)
    assert (four.signals.shape, four.signal_times.shape) == ((4, 2, 1), (4, 2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "steady", "signals": 1}, "signals change in time, and task 'steady' has none"),
        ({"task": "autoencoder", "parameters": 1}, "parameters: an autoencoder takes no steps"),
        ({"parameters": -1}, "parameters: .*greater than or equal to 0"),
    ],
)
def test_conditions_that_fit_no_task_are_refused(changes, message):
    plain = without(next(case for case in TOLD if case.name == "calm" and case.dim == 2)) | {"detail": None}
    with pytest.raises(ConfigError, match=message):
        MODELS["calm"].model_validate(plain | changes)


def test_gradients_by_conditions_equal_finite_differences():
    """Of the whole model, by parameters, the values of signals and features."""
    model = Case("calm", CALM.config | {"detail": None, "integrator": "rk4"}, stirred=True).build().double()
    call = shared_mesh(CALM, batch=1)
    names = ("parameters", "signals", "features")

    def answers(*told: torch.Tensor) -> torch.Tensor:
        return model(**call | dict(zip(names, told, strict=True)), times=[0.5]).sum(dim=-1)

    inputs = tuple(call[name].clone().requires_grad_() for name in names)
    assert torch.autograd.gradcheck(answers, inputs, fast_mode=True)
