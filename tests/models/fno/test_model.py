"""FNO: counts, its layers against numpy, what it does without Fourier weights and under shifts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.special import erf

from calm_pde.errors import ConfigError, InputError
from calm_pde.models.fno.model import FnoConfig
from calm_pde.models.size import num_parameters
from tests.clouds import grid, relative_error
from tests.nn.fourier_matrices import cells, fourier_matrix, real_inverse_matrix, wavenumbers

COUNTS = {"burgers_1d": 549_569, "navier_stokes_2d": 1_812_161, "compressible_3d": 22_123_753}


def small(**changes):
    return FnoConfig.model_validate(
        {"dim": 2, "in_channels": 2, "out_channels": 2, "width": 4, "modes": 3, "head_width": 7} | changes
    )


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_the_paper(name):
    assert num_parameters(FnoConfig.preset(name).build()) == COUNTS[name]
    unused = 160 if name == "compressible_3d" else 0
    assert num_parameters(FnoConfig.preset(name, paper_param_count=False).build()) == COUNTS[name] - unused


@pytest.mark.parametrize("name", [name for name in FnoConfig.presets if name.endswith("small")])
def test_small_presets(name):
    config = FnoConfig.preset(name)
    assert num_parameters(config.build()) <= 500_000
    side = {1: 256, 2: 32, 3: 16}[config.dim]  # the grids of the small recipes
    points = grid(side, config.dim).float()
    assert config.build()(torch.randn(1, len(points), config.in_channels), points, 1).isfinite().all()


@pytest.mark.parametrize(("dim", "sizes", "padding"), [(1, (9,), 2), (2, (7, 8), 2), (2, (7, 8), 0), (3, (6, 6, 6), (0, 0, 3))])
def test_equals_the_formula_in_numpy(dim, sizes, padding):
    model = small(dim=dim, padding=padding, layers=3).build(seed=2).double()
    with torch.no_grad():  # the published start is so small that Fourier layers would hide behind the skips
        for layer in model.layers:
            layer.spectral.mixing.weight.mul_(20)
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    points, u = torch.from_numpy(cells(sizes)), noise(1, math.prod(sizes), 2)

    def gelu(x):
        return x * (1 + erf(x / math.sqrt(2))) / 2

    def affine(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    far = model.config.far_padding
    padded = tuple(n + extra for n, extra in zip(sizes, far, strict=True))
    k, where = wavenumbers(3, dim), cells(padded)
    forward, inverse = fourier_matrix(k, where), real_inverse_matrix(k, where) / len(where)
    h = affine("lift.linear", np.concatenate([u[0].numpy(), points.numpy()], axis=1)).reshape(*sizes, 4)
    h = np.pad(h, [*((0, extra) for extra in far), (0, 0)]).reshape(-1, 4)
    for depth in range(3):
        r = weights[f"layers.{depth}.spectral.mixing.weight"].reshape(len(k), 4, 4, 2) @ [1, 1j]
        h = (inverse @ np.einsum("ki,kio->ko", forward @ h, r)).real + affine(f"layers.{depth}.skip", h)
        h = gelu(h) if depth < 2 else h
    h = h.reshape(*padded, 4)[tuple(slice(n) for n in sizes)].reshape(-1, 4)
    expected = affine("last", gelu(affine("head", h)))
    assert relative_error(model(u, points, 1)[0, 0], torch.from_numpy(expected)) < 1e-12


def test_without_fourier_weights_it_is_pointwise():
    model = small(padding=2).build().double()
    points, u = grid(8, 2), noise(1, 64, 2)
    moved = u.clone()
    moved[0, 17] += 1
    changed = (model(moved, points, 1) != model(u, points, 1)).any(dim=-1)[0, 0]
    assert changed.sum() > 32  # Fourier layers spread what happened at one cell
    with torch.no_grad():
        for layer in model.layers:
            layer.spectral.mixing.weight.zero_()
    changed = ((model(moved, points, 1) - model(u, points, 1)).abs() > 1e-13).any(dim=-1)[0, 0]
    assert changed.nonzero().flatten().tolist() == [17]


def test_shifts_on_a_periodic_grid():
    model = small().build().double()
    points, u = grid(8, 2), noise(1, 64, 2)
    shifted = u.view(8, 8, 2).roll((3, 2), dims=(0, 1)).view(1, 64, 2)

    def rolled(answer):
        return answer.view(8, 8, 2).roll((3, 2), dims=(0, 1)).view(1, 1, 64, 2)

    assert relative_error(model(shifted, points, 1), rolled(model(u, points, 1))) > 1e-3  # it sees coordinates
    with torch.no_grad():
        model.lift.linear.weight[:, 2:] = 0
    assert relative_error(model(shifted, points, 1), rolled(model(u, points, 1))) < 1e-12


def test_grids_too_coarse_for_the_modes_are_refused():
    with pytest.raises(InputError, match=r"at least 6 × 4 cells.*got 5 × 5.*fewer modes"):
        small().build().double()(noise(1, 25, 2), grid(5, 2), 1)
    assert small(padding=1).build().double()(noise(1, 25, 2), grid(5, 2), 1).shape == (1, 1, 25, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"padding": (2,)}, "padding needs one number, or 2 of them"),
        ({"node_types": (0, 4)}, "leave node_types out"),
        ({"out_channels": 3}, "a frame follows a frame: out_channels must be 2, got 3"),
        ({"mode": 3}, "unknown key 'mode'. Did you mean 'modes'?"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        small(**changes)
