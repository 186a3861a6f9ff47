"""F-FNO: counts, both forms against numpy, the head that reads the last block alone, mistakes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError, InputError
from calm_pde.models.ffno.model import FfnoConfig
from calm_pde.models.size import num_parameters
from tests.clouds import grid, random_cloud, relative_error
from tests.models.ffno.test_factorized_convolution import axis_convolution
from tests.models.geo_fno.test_model import deformation, gelu
from tests.nn.fourier_matrices import cells, fourier_matrix, real_inverse_matrix, wavenumbers

COUNTS = {
    "burgers_1d": 665_281,
    "navier_stokes_2d": 151_361,
    "compressible_3d": 131_913,
    "airfoil_2d": 625_270,
    "cylinder_2d": 625_229,
}


def small(**changes: Any) -> FfnoConfig:
    return FfnoConfig.model_validate(
        {"dim": 2, "in_channels": 2, "out_channels": 2, "width": 4, "modes": 2, "layers": 3, "head_width": 7} | changes
    )


def on_points(**changes: Any) -> FfnoConfig:
    return small(**({"form": "points", "layers": 4, "latent_size": 6, "deformation_width": 4, "expansion": 2} | changes))


def block(model: torch.nn.Module, depth: int, h: np.ndarray) -> np.ndarray:
    """The change b of features (*space, channel)."""
    part, x = model.blocks[depth], np.moveaxis(h, -1, 0)[None]
    total = sum(
        axis_convolution(convolution.weight.detach().numpy(), x, axis) for axis, convolution in enumerate(part.axes, start=2)
    )
    y = np.moveaxis(total[0], 0, -1)
    y = np.maximum(y @ part.expand.weight.detach().numpy().T + part.expand.bias.detach().numpy(), 0)
    return y @ part.reduce.weight.detach().numpy().T + part.reduce.bias.detach().numpy()


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_the_paper(name):
    assert num_parameters(FfnoConfig.preset(name).build()) == COUNTS[name]
    unused = 3_176 if name in ("airfoil_2d", "cylinder_2d") else 0
    assert num_parameters(FfnoConfig.preset(name, paper_param_count=False).build()) == COUNTS[name] - unused


def test_the_cylinder_count_holds_node_types():
    assert num_parameters(FfnoConfig.preset("cylinder_2d", node_types=()).build()) == 625_117


@pytest.mark.parametrize("name", ["airfoil_2d", "steady_airfoil", "elasticity", "elasticity_small"])
def test_counts_on_points_by_the_closed_form(name):
    """Factorized blocks, each with one number per row of its normed maps beside them; the last layer mixes all modes."""
    config = FfnoConfig.preset(name, paper_param_count=False)
    w, m, d, wide = config.width, config.modes, config.dim, config.expansion * config.width
    block = d * 2 * w**2 * m + (w + 2) * wide + (wide + 2) * w
    mixing, places = 2 * w**2 * (2 * m) ** (d - 1) * m, 2 * (d + 1) * w
    head = (w + 1) * config.head_width + (config.head_width + 1) * config.out_channels
    closed = (config.layers - 2) * block + mixing + places + (config.in_channels + d + 1) * w + head + deformation(config)
    assert num_parameters(config.build()) == closed


@pytest.mark.parametrize("name", [name for name in FfnoConfig.presets if name.endswith("small")])
def test_small_presets(name):
    config = FfnoConfig.preset(name)
    assert num_parameters(config.build()) <= 500_000
    if config.form == "grid":
        points = grid({1: 256, 2: 32, 3: 16}[config.dim], config.dim).float()  # the grids of the small recipes
        assert config.build()(torch.randn(1, len(points), config.in_channels), points, 1).isfinite().all()


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("sizes", [(9,), (7, 8), (6, 5, 7)])
def test_grid_form_equals_the_formula_in_numpy(sizes, padding):
    model = small(dim=len(sizes), padding=padding).build(seed=2).double()
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    points, u = torch.from_numpy(cells(sizes)), random_cloud(math.prod(sizes), 2, seed=1)

    def affine(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    h = affine("lift.linear", np.concatenate([u.numpy(), points.numpy()], axis=1)).reshape(*sizes, 4)
    h = np.pad(h, [*[(0, padding)] * len(sizes), (0, 0)])
    change = h
    for depth in range(3):
        change = block(model, depth, h)
        h = h + change
    change = change[tuple(slice(n) for n in sizes)].reshape(-1, 4)
    expected = affine("last", affine("head", change))
    assert relative_error(model(u[None], points, 1)[0, 0], torch.from_numpy(expected)) < 1e-12


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_point_form_equals_the_formula_in_numpy(dim):
    model = on_points(dim=dim, weight_norm=True).build(seed=3).double()
    with torch.no_grad():  # the published start is so small that the last convolution would hide behind the places
        model.synthesis.weight.mul_(10)
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    points, u, asked = random_cloud(15, dim), random_cloud(15, 2, seed=1), random_cloud(6, dim, seed=2)

    def affine(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    k, shape = wavenumbers(2, dim), (6,) * dim
    with torch.no_grad():
        here, there = model.deformation(points).numpy(), model.deformation(asked).numpy()
    h = affine("lift.linear", np.concatenate([u.numpy(), points.numpy()], axis=1))
    place = affine("grid_place", cells(shape) * 6 / 5).reshape(*shape, 4)
    h = (real_inverse_matrix(k, cells(shape)) / 6**dim @ (fourier_matrix(k, here) @ h)).real.reshape(*shape, 4) + place
    for depth in range(2):
        h = h + block(model, depth, h) + place
    spectrum = fourier_matrix(k, cells(shape)) @ h.reshape(-1, 4)
    spectrum = np.einsum("ki,kio->ko", spectrum, weights["synthesis.weight"].reshape(len(k), 4, 4, 2) @ [1, 1j])
    h = (real_inverse_matrix(k, there) @ spectrum).real + affine("place", asked.numpy())
    expected = affine("last", gelu(affine("head", h)))
    assert relative_error(model(u[None], points, 1, asked)[0, 0], torch.from_numpy(expected)) < 1e-12


def test_the_head_reads_the_last_block_alone():
    model = small().build().double()
    points, u = grid(6, 2), random_cloud(36, 2)[None]
    with torch.no_grad():
        model.blocks[-1].reduce.weight.zero_()
        model.blocks[-1].reduce.bias.zero_()
        answer = model(u, points, 1)
    assert relative_error(answer, answer[:, :, :1].expand_as(answer)) < 1e-14


def test_the_head_is_affine():
    model = small().build().double()
    a, b = random_cloud(4, 9)[None], random_cloud(4, 9, seed=1)[None]
    middle = model.answer((a + b) / 2)
    assert relative_error((model.answer(a) + model.answer(b)) / 2, middle) < 1e-14


def test_grids_too_coarse_for_the_modes_are_refused():
    with pytest.raises(InputError, match=r"at least 8 × 8 cells, as the modes of this ffno.*got 6 × 6"):
        small(modes=5).build().double()(random_cloud(36, 2)[None], grid(6, 2), 1)


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (small, {"node_types": (0, 4)}, "leave node_types out"),
        (on_points, {"padding": 2}, "leave padding out"),
        (on_points, {"layers": 2}, "at least 3 layers, got 2"),
        (on_points, {"latent_size": 3}, "latent_size must be at least 4"),
        (small, {"form": "mesh"}, "form: "),
    ],
)
def test_mistakes_are_named(config, changes, message):
    with pytest.raises(ConfigError, match=message):
        config(**changes)
    assert small(modes=30).form == "grid"  # the latent grid is none of its business
