"""What the tests of derivatives share: small layers and models as numbers that depend on everything they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import calm_pde as cp
from tests.clouds import random_cloud

Function = Callable[..., Tensor]

jit_deprecated = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")
"""Of torch's own forward-mode rules."""

POINTS, VALUES = random_cloud(12, 2), random_cloud(24, 1, seed=1).view(2, 12, 1)
_MASK = torch.arange(12) < torch.tensor([[12], [9]])


def stirred(module: torch.nn.Module) -> None:
    """Every parameter moved, so that what starts at zero or one hides no mistake."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


def small_layer(**options: Any) -> cp.CalmLayer:
    sizes = {"num_queries": 3, "receptive_field": 0.4, "kernel_width": 3, "fourier_width": 4, "fourier_std": 0.5}
    generator = torch.Generator().manual_seed(1)
    return cp.CalmLayer(2, 2, 2, generator=generator, **{"periodic": (True, False), **sizes, **options}).double()


def small_model(integrator: str = "euler", **options: Any) -> cp.CalmPDE:
    encoder = {"channels": (4, 8), "num_queries": (8, 4), "receptive_field": (0.3, 0.5), "temperature": (1.0, 1.0)}
    decoder = {"channels": (4,), "num_queries": (8,), "receptive_field": (0.5, 0.3), "temperature": (1.0, 1.0)}
    changes = {"encoder": encoder, "decoder": decoder, "processor": {"heads": 2}, "integrator": integrator} | options
    return cp.CalmConfig.preset("navier_stokes_2d", **changes).build().double()


def of_layer(layer: cp.CalmLayer, own: bool) -> tuple[Function, list[Tensor]]:
    """A number that depends on features, points, the queries (learned or given) and all parameters, and these.

    With clouds of their own the second of two samples has masked points.
    """
    points = torch.stack([random_cloud(12, 2), random_cloud(12, 2, seed=5)]) if own else random_cloud(12, 2)
    mask = _MASK if own else None
    inputs = [random_cloud(24, 2, seed=3).view(2, 12, 2) - 0.5, points]
    if layer.queries is None:
        inputs.append(random_cloud(8, 2, seed=4).view(2, 4, 2) if own else random_cloud(4, 2, seed=4))
    names, given = [name for name, _ in layer.named_parameters()], len(inputs)
    neighbors = layer.neighbors(points, *inputs[2:], mask=mask)

    def number(*inputs: Tensor) -> Tensor:
        x, points, *queries = inputs[:given]
        asked = (x, points, queries[0] if queries else None, mask, neighbors)
        return _number(torch.func.functional_call(layer, dict(zip(names, inputs[given:], strict=True)), asked)[0])

    return number, [*inputs, *(parameter.detach().clone() for parameter in layer.parameters())]


def of_model(model: cp.CalmPDE, own: bool) -> tuple[Function, list[Tensor]]:
    """The same for a model that encodes, advances to times on and between frames, and decodes at given queries."""
    points = torch.stack([POINTS, random_cloud(12, 2, seed=5)]) if own else POINTS
    inputs = [VALUES - 0.5, points, random_cloud(5, 2, seed=6)]
    names, mask = [name for name, _ in model.named_parameters()], _MASK if own else None

    def number(*inputs: Tensor) -> Tensor:
        values, points, queries, *parameters = inputs
        asked = {"queries": queries, "mask": mask, "times": [0.5, 2.0]}
        return _number(torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (values, points), asked))

    return number, [*inputs, *(parameter.detach().clone() for parameter in model.parameters())]


def _number(y: Tensor) -> Tensor:
    return (y.square() * torch.linspace(0.5, 2, y.numel(), dtype=y.dtype).view_as(y)).sum()


def gradients(number: Function, inputs: Sequence[Tensor], create_graph: bool = False) -> list[Tensor]:
    """By all inputs; one that is missing is zero, and differs from what it should be."""
    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    return list(
        torch.autograd.grad(number(*leaves), leaves, create_graph=create_graph, allow_unused=True, materialize_grads=True)
    )


def curvatures(number: Function, inputs: Sequence[Tensor], along: Sequence[Tensor]) -> list[Tensor]:
    """The second derivative along a direction, by a backward through the backward."""
    leaves = [value.detach().clone().requires_grad_() for value in inputs]
    slopes = torch.autograd.grad(number(*leaves), leaves, create_graph=True, allow_unused=True, materialize_grads=True)
    slope = torch.stack([(one * way).sum() for one, way in zip(slopes, along, strict=True)]).sum()
    return list(torch.autograd.grad(slope, leaves, allow_unused=True, materialize_grads=True))


def differences(function: Callable[[Sequence[Tensor]], list[Tensor]], inputs: Sequence[Tensor], along: Sequence[Tensor]):
    """The derivative of what a function of all inputs gives, along a direction, by central differences."""
    step = 1e-5
    ahead, behind = (function([value + side * way for value, way in zip(inputs, along, strict=True)]) for side in (step, -step))
    return [(later - before) / (2 * step) for later, before in zip(ahead, behind, strict=True)]


def directions(inputs: Sequence[Tensor]) -> list[Tensor]:
    """One of length 1 for each."""
    generator = torch.Generator().manual_seed(7)
    drawn = [torch.randn(value.shape, generator=generator, dtype=value.dtype) for value in inputs]
    return [way / way.norm() for way in drawn]


def worst(found: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """The largest error of all, each relative to its own size, or to a little of the largest where it is all rounding."""
    largest = max(float(value.detach().abs().max()) for value in wanted)
    return max(
        float((a - b).detach().abs().max()) / (float(b.detach().abs().max()) + 1e-3 * largest)
        for a, b in zip(found, wanted, strict=True)
    )
