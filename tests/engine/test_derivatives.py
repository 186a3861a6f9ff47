"""Derivatives of derivatives and torch.func's transforms: the same numbers as ordinary gradients, or a refusal by name."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

import calm_pde as cp
from calm_pde.engine.orders import ORDERS, Order
from calm_pde.engine.plan import Plan
from tests.clouds import random_cloud, relative_error


def small_layer(**options) -> cp.CalmLayer:
    sizes = {"num_queries": 3, "receptive_field": 0.4, "kernel_width": 3, "fourier_width": 4, "fourier_std": 0.5}
    generator = torch.Generator().manual_seed(1)
    return cp.CalmLayer(2, 2, 2, periodic=(True, False), generator=generator, **{**sizes, **options}).double()


def small_model(integrator: str = "euler") -> cp.CalmPDE:
    encoder = {"channels": (4, 8), "num_queries": (8, 4), "receptive_field": (0.3, 0.5), "temperature": (1.0, 1.0)}
    decoder = {"channels": (4,), "num_queries": (8,), "receptive_field": (0.5, 0.3), "temperature": (1.0, 1.0)}
    changes = {"encoder": encoder, "decoder": decoder, "processor": {"heads": 2}, "integrator": integrator}
    return cp.CalmConfig.preset("navier_stokes_2d", **changes).build().double()


jit_deprecated = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
"""Of torch's own forward-mode rules."""

POINTS, VALUES = random_cloud(12, 2), random_cloud(24, 1, seed=1).view(2, 12, 1)


@pytest.mark.parametrize("kept", [False, True], ids=["again", "kept"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_second_derivatives_of_every_order(order: Order, kept: bool):
    layer = small_layer()
    chosen = Plan(order, 2, 10**6 if kept else 1, True, kept, kept, kept and order.by_point)
    layer.plan = lambda sizes: chosen  # pyright: ignore[reportAttributeAccessIssue]
    points = random_cloud(6, 2)
    names, neighbors = [name for name, _ in layer.named_parameters()], layer.neighbors(points)

    def output(x, points, *parameters):
        weights = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(layer, weights, (x, points, None, None, neighbors))[0]

    inputs = [random_cloud(6, 2, seed=3)[None], points, *(parameter.detach() for parameter in layer.parameters())]
    assert torch.autograd.gradgradcheck(output, [value.clone().requires_grad_() for value in inputs])


def test_second_derivatives_of_the_distance_kernel():
    layer, points = small_layer(kernel="distance"), random_cloud(6, 2)
    neighbors = layer.neighbors(points)
    inputs = [random_cloud(6, 2, seed=3)[None].requires_grad_(), points.requires_grad_()]
    assert torch.autograd.gradgradcheck(lambda x, points: layer(x, points, None, None, neighbors)[0], inputs)


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_second_derivatives_of_the_model(integrator):
    model, queries = small_model(integrator), torch.full((3, 2), 0.3, dtype=torch.float64)
    inputs = [VALUES[:1].clone().requires_grad_(), POINTS.clone().requires_grad_()]
    assert torch.autograd.gradgradcheck(lambda values, points: model(values, points, 2, queries=queries), inputs)


def test_a_gradient_penalty_reaches_every_weight():
    model, values = small_model(), VALUES.clone().requires_grad_()
    (slope,) = torch.autograd.grad(model(values, POINTS, 2).square().sum(), values, create_graph=True)
    slope.square().sum().backward()
    assert all(parameter.grad is not None and bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


@jit_deprecated
@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.jacfwd], ids=["jacrev", "jacfwd"])
@pytest.mark.parametrize("by", ["values", "points"])
def test_jacobians_of_torch_func(transform, by):
    model, queries = small_model(), torch.full((3, 2), 0.3, dtype=torch.float64)

    def output(given: torch.Tensor) -> torch.Tensor:
        values, points = (given, POINTS) if by == "values" else (VALUES, given)
        return model(values, points, 2, queries=queries)

    given = VALUES if by == "values" else POINTS
    expected = torch.autograd.functional.jacobian(output, given)
    assert float(expected.abs().max()) > 1e-6
    assert relative_error(transform(output)(given), expected) < 1e-10


@jit_deprecated
def test_directional_derivatives_vmap_and_dual_numbers():
    model, direction = small_model(), torch.linspace(-1, 1, VALUES.numel(), dtype=torch.float64).view_as(VALUES)

    def output(values: torch.Tensor) -> torch.Tensor:
        return model(values, POINTS, 2)

    jacobian = torch.autograd.functional.jacobian(output, VALUES)
    expected = torch.einsum("btqcspd,spd->btqc", jacobian, direction)
    assert relative_error(torch.func.jvp(output, (VALUES,), (direction,))[1], expected) < 1e-10
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(output(forward_ad.make_dual(VALUES, direction))).tangent
    assert relative_error(tangent, expected) < 1e-10
    both = torch.func.vmap(output)(torch.stack([VALUES, 2 * VALUES]))
    assert relative_error(both, torch.stack([output(VALUES), output(2 * VALUES)])) < 1e-10


def test_clouds_under_vmap_are_refused_by_name():
    model = small_model()
    with pytest.raises(ValueError, match=r"points: expected one cloud, .*vmap.*give the clouds as \(batch, point, dim\)"):
        torch.func.vmap(lambda points: model(VALUES, points, 2))(torch.stack([POINTS, POINTS]))


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


def test_float16_weights_are_refused_by_name():
    model = small_model().half()
    with pytest.raises(ValueError, match=r"weights: expected float32, float64 or bfloat16, got float16.*\.float\(\)"):
        model(VALUES.half(), POINTS.half(), 2)
    assert bool(small_model().bfloat16()(VALUES.bfloat16(), POINTS.bfloat16(), 2).isfinite().all())
