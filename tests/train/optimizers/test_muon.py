"""Muon against its formulas in float64, by singular values and number by number."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from calm_pde.nn.matrices import Matrices
from calm_pde.train.optimizers.muon import Muon, orthogonal


def by_singular_values(x: torch.Tensor) -> torch.Tensor:
    """U p(p(p(p(p(Σ/‖X‖))))) Vᴴ with p(σ) = aσ + bσ³ + cσ⁵."""
    u, sigma, vh = torch.linalg.svd(x.to(torch.complex128 if x.is_complex() else torch.float64), full_matrices=False)
    sigma = sigma / sigma.norm(dim=-1, keepdim=True)
    for _ in range(5):
        sigma = 3.4445 * sigma - 4.7750 * sigma**3 + 2.0315 * sigma**5
    return (u * sigma[..., None, :]) @ vh


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64])
@pytest.mark.parametrize("shape", [(3, 12, 12), (2, 20, 12), (2, 24, 12), (1, 300, 8)])
def test_steps_of_newton_and_schulz_act_on_singular_values(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(0))
    wanted = by_singular_values(x)
    error = (orthogonal(x) - wanted).abs().max() / wanted.abs().max()
    assert error < (1e-12 if dtype == torch.float64 else 1e-4)


def test_singular_values_end_near_one() -> None:
    x = torch.randn(4, 60, 20, generator=torch.Generator().manual_seed(0)) * torch.logspace(0, 3, 4)[:, None, None]
    sigma = torch.linalg.svdvals(orthogonal(x))
    assert sigma.min() > 0.65
    assert sigma.max() < 1.25


def test_directions_without_gradient_stay() -> None:
    """A tall matrix of rank 3 and a zero one: nothing is divided by nothing, and no rounding grows into a direction."""
    generator = torch.Generator().manual_seed(0)
    low = torch.randn(200, 3, generator=generator) @ torch.randn(3, 16, generator=generator)
    found = orthogonal(torch.stack([low, torch.zeros(200, 16)]))
    assert torch.equal(found[1], torch.zeros(200, 16))
    sigma = torch.linalg.svdvals(found[0])
    assert sigma[:3].min() > 0.65
    assert sigma[3:].max() < 0.05


@pytest.mark.parametrize(
    ("shape", "form"),
    [
        ((6, 9), Matrices()),  # wide
        ((9, 6), Matrices()),  # tall
        ((12, 4), Matrices(parts=3)),  # three squares
        ((5, 3, 8), Matrices()),  # filters
        ((2, 3, 5, 4, 2), Matrices(modes=True)),  # spectral weights, tall
        ((2, 4, 6, 2), Matrices(modes=True)),  # and wide
    ],
)
def test_two_steps_are_the_formula(shape: tuple[int, ...], form: Matrices) -> None:
    rate, decay, mu = 0.03, 0.1, 0.9
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(shape, dtype=torch.float64, generator=generator)
    gradients = [torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2)]

    parameter = nn.Parameter(weight.clone())
    optimizer = Muon({parameter: form}, rate, decay, mu)
    momentum = torch.zeros_like(weight)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        momentum = mu * momentum + (1 - mu) * gradient
        ahead = (1 - mu) * gradient + mu * momentum
        if form.modes:
            matrices = torch.view_as_complex(ahead).reshape(-1, *shape[-3:-1])
        else:
            matrices = ahead.reshape(form.parts, -1, shape[-1])
        move = by_singular_values(matrices) * 0.2 * math.sqrt(max(matrices.shape[-2:]))
        weight = (1 - rate * decay) * weight - rate * (torch.view_as_real(move) if form.modes else move).reshape(shape)
    torch.testing.assert_close(parameter.detach(), weight, rtol=1e-10, atol=1e-10)


def test_equal_shapes_together_are_each_alone() -> None:
    generator = torch.Generator().manual_seed(0)
    start = [
        torch.randn(8, 5, generator=generator),
        torch.randn(5, 8, generator=generator),
        torch.randn(16, 5, generator=generator),
    ]
    forms = [Matrices(), Matrices(), Matrices(parts=2)]
    gradients = [torch.randn(value.shape, generator=generator) for value in start]

    def moved(places: list[int]) -> list[torch.Tensor]:
        parameters = [nn.Parameter(start[place].clone()) for place in places]
        for parameter, place in zip(parameters, places, strict=True):
            parameter.grad = gradients[place].clone()
        Muon({p: forms[place] for p, place in zip(parameters, places, strict=True)}, 0.1, 0.0).step()
        return [parameter.detach() for parameter in parameters]

    for place, together in enumerate(moved([0, 1, 2])):
        torch.testing.assert_close(together, moved([place])[0])


def test_real_and_complex_matrices_of_one_shape_are_each_alone() -> None:
    """As in FNO, whose pointwise maps are as wide as its spectral weights."""
    shapes = {(6, 4): Matrices(), (3, 6, 4, 2): Matrices(modes=True)}
    generator = torch.Generator().manual_seed(0)
    values = {shape: (torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)) for shape in shapes}

    def moved(chosen: list[tuple[int, ...]]) -> dict[tuple[int, ...], torch.Tensor]:
        parameters = {shape: nn.Parameter(values[shape][0].clone()) for shape in chosen}
        for shape, parameter in parameters.items():
            parameter.grad = values[shape][1].clone()
        Muon({parameters[shape]: shapes[shape] for shape in chosen}, 0.1, 0.01).step()
        return {shape: parameter.detach() for shape, parameter in parameters.items()}

    together = moved(list(shapes))
    for shape in shapes:
        assert torch.equal(together[shape], moved([shape])[shape])


def test_a_parameter_without_gradient_stays() -> None:
    still, moving = nn.Parameter(torch.ones(4, 4)), nn.Parameter(torch.ones(4, 4))
    moving.grad = torch.eye(4)
    Muon({still: Matrices(), moving: Matrices()}, 0.1, 0.5).step()
    assert torch.equal(still.detach(), torch.ones(4, 4))
    assert not torch.equal(moving.detach(), torch.ones(4, 4))
