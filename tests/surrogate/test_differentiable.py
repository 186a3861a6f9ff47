"""Objectives are differentiated through a surrogate, once and twice, by all that it is given; the rest is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import DivergedError, InputError, TrainingRangeWarning
from calm_pde.records.description import Field, Prescribed
from calm_pde.surrogate.differentiable import Differentiable
from calm_pde.surrogate.surrogate import Surrogate
from tests.clouds import random_cloud
from tests.engine.derivatives import Function, curvatures, differences, directions, gradients, jit_deprecated, worst
from tests.models.contract import TOLD, Case, shared_mesh, surrogate_of
from tests.surrogate.test_surrogate import BOX, POINTS, STATE, cloud, one_thread, small_surrogate  # noqa: F401
from tests.surrogate.test_told import GIVEN, KINDS, TIMES, conditioned

ASKED = cloud(7, seed=5)
WALL_TIMES = [0.0, 0.35, 1.1, 2.0]
LOGARITHMIC = (False, True)  # of speed and power


@pytest.fixture(scope="module")
def surrogate() -> Surrogate:
    return conditioned()


def precise(**more: Any) -> Differentiable:
    """In float64, with one parameter that is told by its logarithm."""
    found = conditioned()
    known = found.card.parameter_statistics
    assert known is not None
    changed = known.model_copy(update={"logarithmic": LOGARITHMIC, "mean": (0.5, 2.3), "std": (0.2, 0.4)})
    found = Surrogate(found.model, found.card.model_copy(update={"parameter_statistics": changed}))
    return found.differentiable(POINTS, times=[0.3, 1.5], **more).double()


def weighed(answer: torch.Tensor) -> torch.Tensor:
    """A number that depends on every value."""
    return (answer.square() * torch.linspace(0.5, 2, answer.numel(), dtype=answer.dtype).view_as(answer)).sum()


def of_everything(module: Differentiable) -> tuple[Function, dict[str, torch.Tensor]]:
    """A number of everything that a module is told, and where to differentiate it."""
    draw = np.random.default_rng(1)
    given = {
        "initial": torch.tensor(STATE),
        "power": torch.tensor(12.0, dtype=torch.float64),
        "speed": torch.tensor(0.3, dtype=torch.float64),
        "wall": torch.tensor(draw.uniform(-2, 4, 4)),
        "pump": torch.tensor(draw.uniform(-0.9, 0.9, len(TIMES))),
        "depth": torch.tensor(STATE[:, 0]),
        "queries": torch.tensor(ASKED),
    }

    def number(initial, power, speed, wall, pump, depth, queries):
        told = {"parameters": {"power": power, "speed": speed}, "features": {"depth": depth}}
        return weighed(module(initial, signals={"wall": (WALL_TIMES, wall), "pump": pump}, queries=queries, **told))

    return number, given


def check_derivatives(number: Function, inputs: list[torch.Tensor], tolerance: float = 1e-5) -> None:
    """First and second derivatives, along a direction of all inputs and of each alone, are those of central differences."""
    along = directions(inputs)
    slopes = gradients(number, inputs)
    assert worst(gradients(number, inputs, create_graph=True), slopes) < 1e-11
    for place, way in enumerate(along):
        alone = [way if other == place else torch.zeros_like(value) for other, value in enumerate(inputs)]
        (measured,) = differences(lambda at: [number(*at).detach()], inputs, alone)
        assert float((slopes[place] * way).sum()) == pytest.approx(float(measured), rel=tolerance, abs=1e-8)
        assert float(slopes[place].abs().max()) > 0
    assert worst(curvatures(number, inputs, along), differences(lambda at: gradients(number, at), inputs, along)) < tolerance


def test_by_everything_that_is_given():
    """State, parameters, signals at their knots, features and queries, also with the queries of the module itself."""
    number, given = of_everything(precise())
    check_derivatives(number, list(given.values()))


def test_by_what_is_prescribed():
    """At the points where it is, the answer is the given value, and so is the derivative; elsewhere it is not read."""
    known = (Prescribed(field="v", node_types=(4,)),)
    more = small_surrogate(node_types=(0, 4))
    found = Surrogate(more.model, more.card.model_copy(update={"prescribed": known}))
    module = found.differentiable(POINTS, times=[0.5, 1.0], node_type=KINDS).double()
    walls = torch.tensor(np.random.default_rng(0).uniform(1, 3, (2, len(POINTS))))

    def number(initial, values):
        return weighed(module(initial, prescribed={"v": values}))

    inputs = [torch.tensor(STATE), walls]
    check_derivatives(number, inputs)
    answer = module(inputs[0], prescribed={"v": walls})
    assert torch.equal(answer[:, KINDS == 4, 1], walls[:, KINDS == 4])
    by_walls = gradients(number, inputs)[1]
    assert bool((by_walls[:, KINDS == 0] == 0).all() & (by_walls[:, KINDS == 4] != 0).all())


@jit_deprecated
@pytest.mark.parametrize("case", TOLD, ids=str)
def test_through_every_model(case: Case):
    """By state, parameters, signals and features of each model, twice; by queries where it answers anywhere."""
    call = shared_mesh(case, batch=1)
    names = {"parameters": ("a", "b"), "signals": ("c",), "features": (Field(name="d"), Field(name="e"))}
    found = surrogate_of(case, case.build())
    found = Surrogate(found.model, found.card.model_copy(update=names))
    node_type = call.get("node_type")
    module = found.differentiable(2 * call["points"], times=[0.5, 1.0], node_type=node_type).double()
    inputs = [call["values"][0] + 1, call["parameters"][0], call["signals"][0, :, 0], call["features"][0]]
    inputs += [2 * random_cloud(4, case.dim, seed=9)] if case.queries else []

    def number(initial, parameters, signal, features, queries=None):
        told = {"parameters": dict(zip("ab", parameters, strict=True)), "signals": {"c": ([0.0, 0.4, 0.9, 1.5], signal)}}
        return weighed(module(initial, features=features, queries=queries, **told))

    check_derivatives(number, inputs, tolerance=1e-4)


@pytest.mark.parametrize("queries", [None, ASKED], ids=["points", "queries"])
def test_the_answer_is_that_of_solve(surrogate, queries):
    given = GIVEN | {"signals": {"wall": 2.0, "pump": GIVEN["signals"]["pump"]}}
    for told in (GIVEN, given):
        found = surrogate.differentiable(POINTS, queries=queries)(STATE, **told)
        np.testing.assert_allclose(found, surrogate.solve(STATE, POINTS, queries=queries, **told), rtol=1e-5, atol=1e-5)
        assert torch.equal(surrogate.differentiable(POINTS)(STATE, queries=queries, **told), found)


def test_batches_are_their_samples(surrogate):
    """What is told of each sample has an axis of them; signals of different knots too."""
    power, rows = np.array([6.0, 9.0, 14.0]), np.random.default_rng(0).uniform(-2, 4, (3, 4))
    knots = np.sort(np.random.default_rng(1).uniform(0.1, 1.9, (3, 4)))
    knots[:, 0], knots[:, -1] = 0.0, 2.0
    told = {
        "parameters": {"power": torch.tensor(power), "speed": 0.3},
        "signals": {"wall": (knots, torch.tensor(rows)), "pump": GIVEN["signals"]["pump"]},
        "features": torch.tensor(STATE[:, :1]),
    }
    states = np.stack([STATE, 0.9 * STATE, STATE])
    found = surrogate.differentiable(POINTS)(torch.tensor(states), **told)
    assert found.shape == (3, 4, 40, 2)
    plain = {**told, "parameters": {"power": power, "speed": 0.3}, "signals": {**told["signals"], "wall": (knots, rows)}}
    np.testing.assert_allclose(found, surrogate.solve(states, POINTS, **plain), rtol=1e-5, atol=1e-5)
    for row in range(3):
        own = told | {"parameters": {"power": power[row], "speed": 0.3}}
        own |= {"signals": told["signals"] | {"wall": (knots[row], rows[row])}}
        np.testing.assert_allclose(surrogate.differentiable(POINTS)(states[row], **own), found[row], rtol=1e-4, atol=1e-5)


def test_steady_surrogates_and_their_features():
    """Features are given as the state; of one that has coordinates alone nothing but queries can move the answer."""
    told = small_surrogate(task="steady", features=("u",))
    module = told.differentiable(POINTS).double()
    check_derivatives(
        lambda features, at: weighed(module(features, queries=at)), [torch.tensor(STATE[:, :1]), torch.tensor(ASKED)]
    )
    np.testing.assert_allclose(told.differentiable(POINTS)(features=STATE[:, :1]), told.solve(STATE[:, :1], POINTS), atol=1e-6)
    bare = small_surrogate(task="steady")
    module = bare.differentiable(POINTS)
    np.testing.assert_allclose(module(), bare.solve(None, POINTS), rtol=1e-5)
    check_derivatives(lambda at: weighed(module.double()(queries=at)), [torch.tensor(ASKED)])
    with pytest.raises(InputError, match="initial: expected none that is differentiated by, got a tensor with gradient"):
        module(torch.tensor(POINTS, requires_grad=True))


@pytest.mark.parametrize("periods", [-2, 3])
def test_whole_periods_of_queries_change_no_derivative(periods):
    module = small_surrogate().differentiable(POINTS).double()
    asked = torch.tensor(ASKED)
    expected = gradients(lambda at: weighed(module(STATE, queries=at)), [asked])
    shifted = gradients(lambda at: weighed(module(STATE, queries=at + periods * torch.tensor(BOX.upper))), [asked])
    assert worst(shifted, expected) < 1e-9


def test_tensors_keep_their_type_and_weights_theirs(surrogate):
    module = surrogate.differentiable(POINTS)
    powers = [torch.tensor(12.0, dtype=kind, requires_grad=True) for kind in (torch.float32, torch.float64)]
    for power in powers:
        state = torch.tensor(STATE, dtype=power.dtype, requires_grad=True)
        answer = module(state, **(GIVEN | {"parameters": {"power": power, "speed": 0.3}}))
        answer.square().sum().backward()
        assert answer.dtype == power.dtype == power.grad.dtype == state.grad.dtype
    assert float(powers[0].grad) == pytest.approx(float(powers[1].grad), rel=1e-4)
    assert module(STATE, **GIVEN).dtype == torch.float32
    assert module.double()(STATE, **GIVEN).dtype == torch.float64


def test_weights_are_frozen_and_a_snapshot(surrogate):
    """The surrogate itself can go on learning; what is part of a module in training answers as in use."""
    found = small_surrogate(told={"dropout": 0.5})
    module = found.differentiable(POINTS)
    before = module(STATE)
    assert not any(weight.requires_grad for weight in module.parameters())
    assert all(weight.requires_grad for weight in found.model.parameters())
    with torch.no_grad():
        for weight in found.model.parameters():
            weight.zero_()
    assert torch.equal(torch.nn.Sequential(module).train()[0](STATE), before)


def test_lists_of_tensors_lose_no_gradient(surrogate):
    levels = [torch.tensor(level, requires_grad=True) for level in (0.0, 0.1, 0.9, 0.3, -0.5)]
    told = GIVEN | {"signals": {"wall": 1.0, "pump": levels}}
    surrogate.differentiable(POINTS)(STATE, **told).sum().backward()
    assert all(level.grad is not None and float(level.grad.abs()) > 0 for level in levels)  # the last one by the step before it


@jit_deprecated
def test_transforms_of_torch_see_through_it():
    number, given = of_everything(precise())
    wanted, others = ("power", "speed", "wall"), ("initial", "pump", "depth", "queries")

    def function(power, speed, wall):
        return number(power=power, speed=speed, wall=wall, **{name: given[name] for name in others})

    at = tuple(given[name] for name in wanted)
    rows = torch.autograd.functional.hessian(function, at)
    seen = torch.func.hessian(function, argnums=(0, 1, 2))(*at)
    for row, other in zip(rows, seen, strict=True):
        assert worst(other, row) < 1e-9


def test_an_objective_is_minimized_by_newton():
    """The power that gives a wanted mean, with exact curvature: quadratic convergence, which a wrong derivative spoils."""
    module = precise()

    def mean(power: torch.Tensor) -> torch.Tensor:
        return module(STATE, **(GIVEN | {"parameters": {"power": power, "speed": 0.3}}))[-1, :, 0].mean()

    wanted = mean(torch.tensor(8.0)).detach()
    power = torch.tensor(9.5, dtype=torch.float64, requires_grad=True)
    errors = []
    for _ in range(7):
        away = mean(power) - wanted
        (slope,) = torch.autograd.grad(away, power)
        errors.append(float(away.detach().abs()))
        power = (power - away / slope).detach().requires_grad_()
    assert errors[-1] < 1e-13 * max(1.0, abs(float(wanted))) < errors[1]
    assert float(power.detach()) == pytest.approx(8.0, rel=1e-9)


def test_what_does_not_fit_is_named(surrogate):
    module = surrogate.differentiable(POINTS)
    grown = torch.ones(4, requires_grad=True)
    for changes, message in (
        ({"initial": torch.tensor(STATE[:9])}, r"initial: expected shape \(point, channel\) = \(40, 2\)"),
        ({"parameters": {"power": torch.tensor(1.0)}}, "parameters: expected speed, power, got no 'speed'"),
        ({"parameters": {"power": torch.tensor(torch.nan), "speed": 0.3}}, r"parameters\['power'\]: expected finite numbers"),
        ({"signals": {"wall": (grown, grown), "pump": 0.0}}, r"signals\['wall'\], times: expected plain numbers"),
        ({"signals": {"wall": torch.ones(3), "pump": 0.0}}, r"signals\['wall'\]: expected .* or 5 values"),
        ({"features": torch.tensor(STATE)}, r"features: expected shape \(point, feature\) = \(40, 1\)"),
        ({"queries": torch.ones(3, 3)}, r"queries: expected shape \(point, 2\)"),
        ({"prescribed": {"u": grown}}, "prescribed: expected none"),
    ):
        with pytest.raises(InputError, match=message):
            module(**({"initial": STATE} | GIVEN | changes))
    with pytest.raises(InputError, match="points: expected plain numbers"):
        surrogate.differentiable(torch.tensor(POINTS, requires_grad=True))
    with pytest.warns(TrainingRangeWarning, match="power = 16, trained on 5 to 15"):
        module(STATE, **(GIVEN | {"parameters": {"power": torch.tensor(16.0), "speed": 0.3}}))


def test_an_answer_that_blows_up_is_refused_or_given():
    found = small_surrogate()
    with torch.no_grad():
        next(found.model.decoder[-1].parameters()).fill_(torch.inf)  # pyright: ignore
    with pytest.raises(DivergedError, match="not finite"):
        found.differentiable(POINTS)(STATE)
    assert not bool(found.differentiable(POINTS, allow_nonfinite=True)(STATE).isfinite().all())


def test_solve_names_it_wherever_a_gradient_is_asked(surrogate):
    one, line = torch.tensor(9.0, requires_grad=True), torch.zeros(5, requires_grad=True)
    for changes in (
        {"initial": torch.tensor(STATE, requires_grad=True)},
        {"points": torch.tensor(POINTS, requires_grad=True)},
        {"queries": torch.tensor(ASKED, requires_grad=True)},
        {"parameters": {"power": one, "speed": 0.3}},
        {"parameters": {"power": [one, one], "speed": 0.3}},
        {"signals": {"wall": line, "pump": 0.0}},
        {"signals": {"wall": (TIMES, line), "pump": 0.0}},
        {"features": {"depth": torch.tensor(STATE[:, 0], requires_grad=True)}},
        {"features": torch.tensor(STATE[:, :1], requires_grad=True)},
    ):
        with pytest.raises(InputError, match=r"got a tensor with gradient\. .*surrogate\.differentiable"):
            surrogate.solve(**({"initial": STATE, "points": POINTS} | GIVEN | changes))
    known = (Prescribed(field="v"),)
    plain = small_surrogate()
    held = Surrogate(plain.model, plain.card.model_copy(update={"prescribed": known}))
    with pytest.raises(InputError, match=r"prescribed\['v'\]: .*surrogate\.differentiable"):
        held.solve(STATE, POINTS, [0.5], prescribed={"v": torch.full((1, 40), 2.0, requires_grad=True)})
