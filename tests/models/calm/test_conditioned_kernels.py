"""Kernels that see parameters: as the equation says, in every order of contraction; nothing at first; frozen on one mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import calm_pde as cp
from calm_pde.engine.orders import ORDERS
from calm_pde.engine.plan import Plan
from calm_pde.errors import ConfigError, InputError
from calm_pde.models.calm.kernel import KernelModulator
from calm_pde.records.inputs import Frames, Inputs
from tests import oracle
from tests.clouds import random_cloud, relative_error
from tests.engine.derivatives import jit_deprecated, small_layer, small_model, stirred, worst

MASK = torch.arange(12) < torch.tensor([[12], [9], [12]])
PARAMETERS = random_cloud(3, 2, seed=8) - 0.5
POINTS, VALUES = random_cloud(12, 2), random_cloud(36, 1, seed=1).view(3, 12, 1) - 0.5
PLANS = [Plan(order, 10**6, 10**6, True, True, True, order.by_point) for order in ORDERS]
PLANS += [Plan(order, 4, 10**6, False) for order in ORDERS]


class Conditioned(torch.nn.Module):
    """A layer whose kernel sees parameters, as a function of features, points and these."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.layer = small_layer(**options)
        self.layer.kernel.modulator = KernelModulator(2, 3, torch.Generator().manual_seed(3)).double()
        stirred(self)

    def forward(self, x: Tensor, points: Tensor, parameters: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.layer.convolve(x, points, None, mask, None, parameters)[0]


def of_layer(own: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Features (batch, time, point, channel) of three samples, points and a mask."""
    points = torch.stack([random_cloud(12, 2, seed) for seed in range(3)]) if own else random_cloud(12, 2)
    return random_cloud(3 * 2 * 12, 2, seed=3).view(3, 2, 12, 2) - 0.5, points, MASK if own else None


def model(**options: Any) -> cp.CalmPDE:
    found = small_model(**({"parameters": 2, "conditioned_kernels": True} | options))
    stirred(found)
    return found


@pytest.mark.parametrize("plan", PLANS, ids=lambda it: f"{it.order} {it.chunk}")
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own meshes"])
def test_every_order_equals_the_oracle(own, plan):
    conditioned, (x, points, mask) = Conditioned(), of_layer(own)
    conditioned.layer.plan = lambda sizes: plan
    found = conditioned(x, points, PARAMETERS, mask)
    for sample, frame in ((0, 0), (1, 1), (2, 1)):
        expected = oracle.layer(
            oracle.weights_of(conditioned.layer),
            x[sample, frame].numpy(),
            (points[sample] if own else points).numpy(),
            conditioned.layer.queries.detach().numpy(),
            percentile=0.4,
            temperature=1.0,
            periodic=(True, False),
            real=None if mask is None else mask[sample].nonzero().flatten().tolist(),
            parameters=PARAMETERS[sample].numpy(),
        )
        np.testing.assert_allclose(found[sample, frame].detach(), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("plan", PLANS, ids=lambda it: f"{it.order} {it.chunk}")
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own meshes"])
def test_gradients_of_every_order_are_those_of_samples_alone(own, plan):
    """Of layers without parameters, whose scales and shifts are what those of each sample should be."""
    conditioned, (x, points, mask) = Conditioned(), of_layer(own)
    parameters = PARAMETERS.clone().requires_grad_()
    learned = [parameters, *conditioned.parameters()]
    weights, kernel = dict(conditioned.layer.named_parameters()), conditioned.layer.kernel
    alone = []
    for sample in range(3):
        inner = torch.nn.functional.gelu(kernel.modulator.expand(parameters[sample]))
        gain, more = kernel.modulator.reduce(inner).split(kernel.scale.shape[1])
        own_weights = weights | {"kernel.scale": kernel.scale * (1 + gain), "kernel.shift": kernel.shift + more}
        here = slice(None) if mask is None else mask[sample]
        where = (points[sample] if own else points)[here]
        alone.append(torch.func.functional_call(conditioned.layer, own_weights, (x[sample][:, here], where))[0])
    wanted = torch.stack(alone)
    conditioned.layer.plan = lambda sizes: plan
    found = conditioned(x, points, parameters, mask)
    assert relative_error(found, wanted) < 1e-12
    weigh = torch.linspace(0.5, 2, found.numel(), dtype=found.dtype).view_as(found)
    slopes, expected = (torch.autograd.grad((y * weigh).sum(), learned) for y in (found, wanted))
    assert worst(slopes, expected) < 1e-10
    assert float(slopes[0].abs().max()) > 1e-4


@pytest.mark.parametrize("displacements", ["absolute", "relative"])
def test_gradients_by_parameters_equal_finite_differences(displacements):
    """Through encoder and decoder, the processor told nothing; and once more through the gradients."""
    found = model(displacements=displacements)
    with torch.no_grad():
        z, p = found.encode(VALUES, POINTS, parameters=PARAMETERS)

    def answers(parameters: Tensor) -> Tensor:
        tokens, _ = found.encode(VALUES, POINTS, parameters=parameters)
        u = found.decode(z[:, None], p, POINTS[:4], start=Inputs(VALUES, POINTS, parameters=parameters))
        return torch.cat([tokens.sum(dim=-1), u[:, 0, :, 0]], dim=1)

    told = PARAMETERS.clone().requires_grad_()
    assert torch.autograd.gradcheck(answers, told)
    assert torch.autograd.gradgradcheck(answers, told, fast_mode=True)


@jit_deprecated
def test_transforms_see_through_them():
    """Derivatives of the whole model by parameters, forward over reverse, and over many parameters at once."""
    found = model()

    def number(parameters: Tensor) -> Tensor:
        return found(VALUES[:1], POINTS, 1, parameters=parameters).square().sum()

    rows = torch.autograd.functional.hessian(number, PARAMETERS[:1])
    assert relative_error(torch.func.hessian(number)(PARAMETERS[:1]), rows) < 1e-9
    many = torch.func.vmap(number)(PARAMETERS[:, None])
    assert relative_error(many, torch.stack([number(one[None]) for one in PARAMETERS])) < 1e-12


def test_at_first_they_are_those_of_a_model_without():
    """All weights but the new ones are the same to the bit, the answer is but for rounding, and they can learn to differ."""
    switched, plain = (small_model(parameters=2, conditioned_kernels=on) for on in (True, False))
    weights = switched.state_dict()
    assert all(torch.equal(value, weights[name]) for name, value in plain.state_dict().items())
    fresh = sorted(weights.keys() - plain.state_dict().keys())
    layers = ("decoder.0", "encoder.0", "encoder.1")  # the decoder's last layer has no modulation
    ends = ("expand.bias", "expand.weight", "reduce.bias", "reduce.weight")
    assert fresh == [f"{layer}.kernel.modulator.{end}" for layer in layers for end in ends]
    found = switched(VALUES, POINTS, 2, parameters=PARAMETERS)
    assert relative_error(found, plain(VALUES, POINTS, 2, parameters=PARAMETERS)) < 1e-12
    found.square().sum().backward()
    grads = dict(switched.named_parameters())
    assert all(float(grads[name].grad.abs().max()) > 1e-9 for name in fresh if "reduce" in name)


def test_without_parameters_or_the_switch_it_is_the_model_that_it_was():
    """In no weight, in no file, and to the bit in its answer."""
    plain, switched = small_model(), small_model(conditioned_kernels=True)
    assert plain.state_dict().keys() == switched.state_dict().keys()
    assert torch.equal(plain(VALUES, POINTS, 2), switched(VALUES, POINTS, 2))
    assert "conditioned_kernels" not in plain.config.model_dump()
    again = type(plain.config).model_validate_json(switched.config.model_dump_json())
    assert again == switched.config != plain.config


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own meshes"])
@pytest.mark.parametrize("follows", [False, True], ids=["at rest", "following"])
def test_samples_are_answered_as_alone(follows, own):
    """Frames that are encoded together too; each sample by its own parameters."""
    reach = {"reach": (0.5, 0.3)} if follows else {}
    sizes = {"channels": (4, 8), "num_queries": (8, 4), "receptive_field": (0.3, 0.5), "temperature": (1.0, 1.0)}
    found, mask = model(encoder=sizes | reach), MASK if own else None
    points = torch.stack([random_cloud(12, 2, seed) for seed in range(3)]) if own else POINTS
    frames = Frames(torch.stack([VALUES, VALUES], dim=1), points, mask, parameters=PARAMETERS)
    together, (z, _) = found(VALUES, points, 2, mask=mask, parameters=PARAMETERS), found.latents(frames)
    steps = found.following(frames.values, points, mask, parameters=PARAMETERS)
    for sample in range(3):
        here = slice(None) if mask is None else mask[sample]
        where, told = (points[sample] if own else points)[here], PARAMETERS[sample : sample + 1]
        alone = found(VALUES[sample : sample + 1, here], where, 2, parameters=told)
        assert relative_error(together[sample][:, here], alone[0]) < 1e-11
        assert (
            relative_error(z[sample, 1], found.encode(VALUES[sample : sample + 1, here], where, parameters=told)[0][0]) < 1e-11
        )
        assert relative_error(steps[sample, 1, here], alone[0, 0]) < 1e-11
    others = found(VALUES, points, 2, mask=mask, parameters=PARAMETERS.roll(1, dims=0))
    assert relative_error(others, together) > 1e-3


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own meshes"])
def test_baked_it_answers_to_any_parameters(own):
    """Receptive fields are frozen, and so is all of a layer whose kernel sees nothing; nothing is dropped."""
    found, mask = model(dropout=0.5, detail={"channels": 3, "receptive_field": 0.3}), MASK if own else None
    points = torch.stack([random_cloud(12, 2, seed) for seed in range(3)]) if own else POINTS
    baked = found.bake(points, None, mask)
    found.eval()
    for parameters in (PARAMETERS, 2 * PARAMETERS.flip(0)):
        expected = found(VALUES, points, 3, mask=mask, parameters=parameters)
        assert relative_error(baked(VALUES, 3, parameters=parameters), expected) < 1e-12
    if not own:
        expected = found(VALUES[:1], points, times=[0.5], parameters=PARAMETERS[:1])
        assert relative_error(baked(VALUES[:1], times=[0.5], parameters=PARAMETERS[:1]), expected) < 1e-12
    assert [bool(layer.frozen) for layer in (*baked.encoder, *baked.decoder)] == [False, False, False, True]


def test_a_steady_model_has_them_too():
    found = model(task="steady")
    answers = [found(VALUES, POINTS, parameters=told) for told in (PARAMETERS, PARAMETERS.flip(0))]
    assert relative_error(*answers) > 1e-3
    assert relative_error(found.bake(POINTS)(VALUES, parameters=PARAMETERS), answers[0]) < 1e-12


def test_what_does_not_fit_is_named():
    for changes, why in (
        ({"kernel": "distance"}, "the distance kernel has none"),
        ({"modulation": False}, "modulation is False"),
    ):
        with pytest.raises(ConfigError, match=f"conditioned_kernels: .*{why}; leave it out"):
            small_model(conditioned_kernels=True, **changes)
    found, plain = model(), small_model(parameters=2)
    z, p = found.encode(VALUES, POINTS, parameters=PARAMETERS)
    with pytest.raises(InputError, match=r"parameters: expected .* which this model is told, got none"):
        found.encode(VALUES, POINTS)
    with pytest.raises(InputError, match=r"parameters: expected shape .*3 samples with 2 of them"):
        found.encode(VALUES, POINTS, parameters=PARAMETERS[:2])
    with pytest.raises(InputError, match=r"parameters: expected none, since the kernels .*\(config.conditioned_kernels\)"):
        plain.encode(VALUES, POINTS, parameters=PARAMETERS)
    with pytest.raises(InputError, match=r"start: expected .* has kernels that see its parameters"):
        found.decode(z[:, None], p, POINTS)
    with pytest.raises(InputError, match=r"parameters: expected .* which this model is told, got none"):
        found.decode(z[:, None], p, POINTS, start=Inputs(VALUES, POINTS))


def test_they_are_no_hidden_matrices():
    """Their first map reads conditions, and their last is no map between hidden layers: both move number by number."""
    found = model(kernel_width=8)
    names = [name for name in found.state_dict() if "kernel.modulator" in name]
    assert names
    assert not set(names) & set(found.matrices())
    assert any("kernel.filters" in name for name in found.matrices())
