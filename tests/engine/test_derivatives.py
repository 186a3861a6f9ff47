"""Derivatives of derivatives: a backward under `create_graph=True` has the ordinary gradients, and right ones of these."""

from __future__ import annotations

import pytest
import torch

import calm_pde as cp
from calm_pde.engine.orders import KERNEL, ORDERS, Order
from calm_pde.engine.plan import Plan
from calm_pde.models.calm.layer import CalmLayer
from tests.clouds import random_cloud, relative_error
from tests.engine.derivatives import (
    POINTS,
    VALUES,
    curvatures,
    differences,
    directions,
    gradients,
    jit_deprecated,
    of_layer,
    of_model,
    small_layer,
    small_model,
    stirred,
    worst,
)

every_weighting = pytest.mark.parametrize("weighting", ["softmax", "mean", "none"])
every_integrator = pytest.mark.parametrize("integrator", ["euler", "heun", "rk4"])


def planned(order: Order, kept: bool) -> Plan:
    """Three queries at a time; everything that may be kept is, or nothing."""
    return Plan(order, 3, 10**6 if kept else 2, True, kept, kept, kept and order.by_point)


@jit_deprecated
@pytest.mark.parametrize(("own", "periodic"), [(False, (True, False)), (True, False)], ids=["periodic", "own clouds"])
@pytest.mark.parametrize("num_queries", [3, None], ids=["learned", "given"])
@every_weighting
@pytest.mark.parametrize("kept", [False, True], ids=["again", "kept"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_every_order(order, kept, weighting, num_queries, own, periodic):
    layer = small_layer(weighting=weighting, num_queries=num_queries, periodic=periodic)
    stirred(layer)
    layer.plan = lambda sizes: planned(order, kept)  # pyright: ignore[reportAttributeAccessIssue]
    _agree(*of_layer(layer, own))


@jit_deprecated
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own clouds"])
def test_the_distance_kernel(own):
    layer = small_layer(kernel="distance")
    stirred(layer)
    layer.plan = lambda sizes: planned(KERNEL, False)  # pyright: ignore[reportAttributeAccessIssue]
    _agree(*of_layer(layer, own))


@jit_deprecated
@pytest.mark.parametrize(("own", "periodic", "kept"), [(False, True, True), (True, False, False), (False, False, None)])
@every_weighting
@every_integrator
def test_the_whole_model(integrator, weighting, own, periodic, kept, monkeypatch):
    """Encode, advance, decode; with features kept, computed again, and as the model would."""
    model = small_model(integrator, weighting=weighting, periodic=periodic, substeps=2)
    stirred(model)
    if kept is not None:
        monkeypatch.setattr(CalmLayer, "plan", lambda layer, sizes: planned(KERNEL, kept))
    _agree(*of_model(model, own))


def _agree(number, inputs):
    """The graph that is made changes no gradient; differences and the plain formula confirm them and their derivatives."""
    along = directions(inputs)
    ordinary = gradients(number, inputs)
    assert worst(gradients(number, inputs, create_graph=True), ordinary) < 1e-11
    slope = sum(float((one * way).sum()) for one, way in zip(ordinary, along, strict=True))
    (measured,) = differences(lambda at: [number(*at).detach()], inputs, along)
    assert float(measured) == pytest.approx(slope, rel=1e-5)
    found = curvatures(number, inputs, along)
    assert worst(found, differences(lambda at: gradients(number, at), inputs, along)) < 1e-5
    places = tuple(range(len(inputs)))
    plain = torch.func.jvp(torch.func.grad(number, argnums=places), tuple(inputs), tuple(along))[1]
    assert worst(found, plain) < 1e-10


@every_weighting
@every_integrator
def test_gradients_reach_the_parameters_of_a_module_itself(integrator, weighting):
    """Leaves of the model, not stand-ins for them."""
    model = small_model(integrator, weighting=weighting)
    stirred(model)
    values, points = VALUES.clone().requires_grad_(), POINTS.clone().requires_grad_()
    leaves = [values, points, *model.parameters()]
    ordinary = torch.autograd.grad(model(values, points, 2).square().sum(), leaves)
    again = torch.autograd.grad(model(values, points, 2).square().sum(), leaves, create_graph=True)
    assert worst(again, ordinary) < 1e-11


@pytest.mark.parametrize("kept", [False, True], ids=["again", "kept"])
def test_inputs_that_depend_on_one_another(kept):
    """Features of the points, asked at the points: each gradient counts once."""
    layer = small_layer(num_queries=None)
    layer.plan = lambda sizes: planned(KERNEL, kept)  # pyright: ignore[reportAttributeAccessIssue]

    def number(points):
        return layer(points.sin()[None], points, points)[0].square().sum()

    ordinary = gradients(number, [POINTS])
    assert worst(gradients(number, [POINTS], create_graph=True), ordinary) < 1e-12
    along = directions([POINTS])
    found = curvatures(number, [POINTS], along)
    assert worst(found, differences(lambda at: gradients(number, at), [POINTS], along)) < 1e-5


def test_a_gradient_penalty_moves_the_weights_as_differences_say():
    model = small_model()
    stirred(model)
    names = [name for name, _ in model.named_parameters()]

    def penalty(*parameters, create_graph=True):
        values = VALUES.clone().requires_grad_()
        weights = dict(zip(names, parameters, strict=True))
        total = torch.func.functional_call(model, weights, (values, POINTS, 2)).square().sum()
        return torch.autograd.grad(total, values, create_graph=create_graph)[0].square().sum()

    weights = [parameter.detach().clone().requires_grad_() for parameter in model.parameters()]
    found, along = gradients(penalty, weights), directions(weights)
    slope = sum(float((one * way).sum()) for one, way in zip(found, along, strict=True))
    (measured,) = differences(lambda at: [penalty(*at, create_graph=False)], weights, along)
    assert float(measured) == pytest.approx(slope, rel=1e-5)
    assert all(float(gradient.abs().max()) > 0 for gradient in found)


@pytest.mark.parametrize("kernel", ["mlp", "distance"])
@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
def test_a_layer_under_autocast(inside, kernel):
    """As close to single precision as bfloat16 is, and so is the ordinary gradient; wherever the backward stands."""
    layer = small_layer(kernel=kernel).float()
    features = (random_cloud(24, 2, seed=3).view(2, 12, 2) - 0.5).float().requires_grad_()

    def slopes(narrow: bool, create_graph: bool) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            total = layer(features, POINTS.float())[0].square().sum()
            if inside:
                return torch.autograd.grad(total, features, create_graph=create_graph)[0]
        return torch.autograd.grad(total, features, create_graph=create_graph)[0]

    precise, found = slopes(False, False), slopes(True, True)
    assert relative_error(found, precise) < 0.03
    assert relative_error(slopes(True, False), precise) < 0.03
    curved = [torch.autograd.grad(one.square().sum(), layer.bias)[0] for one in (found, slopes(False, True))]
    assert relative_error(*curved) < 0.1


def test_a_gradient_penalty_of_a_model_under_autocast():
    model, values = small_model().float(), VALUES.float().requires_grad_()
    slopes = []
    for narrow in (True, False):
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            total = model(values, POINTS.float(), 2).float().square().sum()
        (slope,) = torch.autograd.grad(total, values, create_graph=True)
        slopes.append(torch.autograd.grad(slope.square().sum(), model.decoder[-1].mix.weight)[0])
    assert relative_error(*slopes) < 0.1


def test_a_call_in_inference_mode_does_not_poison_later_ones():
    """Large enough that buffers, pools, kept neighbors and candidates are all made there."""
    model = cp.CalmConfig.preset("navier_stokes_2d").build()
    points, values = torch.rand(1000, 2), torch.randn(2, 1000, 1)
    with torch.inference_mode():
        inside = model(values, points, 2)
        baked = model.bake(points)
        baked(values, 2)
    outside = model(values, points, 2)
    outside.square().sum().backward()
    assert relative_error(inside.clone(), outside.detach()) < 1e-5
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert relative_error(baked(values, 2), outside.detach()) < 1e-5
    with torch.inference_mode():
        assert relative_error(model(values, points, 2), inside) < 1e-5
