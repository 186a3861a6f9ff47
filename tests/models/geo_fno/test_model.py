"""Geo-FNO: counts, the whole step against numpy, both symmetries, mistakes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import erf

from calm_pde.errors import ConfigError
from calm_pde.models.geo_fno.model import GeoFnoConfig
from calm_pde.models.latent_grid import LatentGridConfig
from calm_pde.models.size import num_parameters
from tests.clouds import random_cloud, relative_error
from tests.nn.fourier_matrices import cells, fourier_matrix, real_inverse_matrix, wavenumbers

COUNTS = {"airfoil_2d": 2_327_710, "cylinder_2d": 2_327_669}


def small(**changes: Any) -> GeoFnoConfig:
    return GeoFnoConfig.model_validate(
        {
            "dim": 2,
            "in_channels": 2,
            "out_channels": 2,
            "width": 4,
            "modes": 2,
            "layers": 4,
            "latent_size": 6,
            "head_width": 7,
            "deformation_width": 4,
        }
        | changes
    )


def gelu(x: np.ndarray) -> np.ndarray:
    return x * (1 + erf(x / math.sqrt(2))) / 2


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_the_paper(name):
    assert num_parameters(GeoFnoConfig.preset(name).build()) == COUNTS[name]
    assert num_parameters(GeoFnoConfig.preset(name, paper_param_count=False).build()) == COUNTS[name] - 1_376


def test_the_cylinder_count_holds_node_types():
    without = GeoFnoConfig.preset("cylinder_2d", node_types=()).build()
    assert num_parameters(without) == 2_327_557


def closed_form(config: GeoFnoConfig) -> int:
    """Without node types: every spectral layer mixes 2m × m complex modes; lift, places, skips, head and deformation."""
    w, m, d, inner = config.width, config.modes, config.dim, config.layers - 2
    mixing = config.layers * 2 * w**2 * (2 * m) ** (d - 1) * m
    places = (inner + 2) * (d + 1) * w
    lift, skips = (config.in_channels + d + 1) * w, inner * (w + 1) * w
    head = (w + 1) * config.head_width + (config.head_width + 1) * config.out_channels
    return mixing + places + lift + skips + head + deformation(config)


def deformation(config: LatentGridConfig) -> int:
    """2d features to W, with their 8 sines and cosines each to 4W, three more layers, and back to d."""
    features, wide = 2 * config.dim, config.deformation_width
    known = wide + 2 * features * (wide // features)
    return (features + 1) * wide + (known + 1) * 4 * wide + 3 * (4 * wide + 1) * 4 * wide + (4 * wide + 1) * config.dim


@pytest.mark.parametrize("name", ["airfoil_2d", "steady_airfoil", "elasticity", "elasticity_small"])
def test_counts_by_the_closed_form(name):
    config = GeoFnoConfig.preset(name, paper_param_count=False)
    assert num_parameters(config.build()) == closed_form(config)


@pytest.mark.parametrize("name", [name for name in GeoFnoConfig.presets if name.endswith("small")])
def test_small_presets(name):
    assert num_parameters(GeoFnoConfig.preset(name).build()) <= 500_000


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("queries", [False, True])
def test_equals_the_formula_in_numpy(dim, queries):
    model = small(dim=dim, node_types=(0, 5)).build(seed=3).double()
    with torch.no_grad():  # the published start is so small that Fourier layers would hide behind the rest
        for name, parameter in model.named_parameters():
            if "mixing" in name or name in ("analysis.weight", "synthesis.weight"):
                parameter.mul_(10)
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}
    points, u = random_cloud(15, dim), random_cloud(15, 2, seed=1)
    asked = random_cloud(6, dim, seed=2) if queries else points
    kinds = torch.tensor([0, 5, 5])[torch.arange(15) % 3]

    def affine(name, x):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def mixed(name, spectrum):
        return np.einsum("ki,kio->ko", spectrum, weights[f"{name}.weight"].reshape(len(k), 4, 4, 2) @ [1, 1j])

    k, shape = wavenumbers(2, dim), (6,) * dim
    to_grid, from_grid = real_inverse_matrix(k, cells(shape)) / 6**dim, fourier_matrix(k, cells(shape))
    with torch.no_grad():
        here, there = model.deformation(points).numpy(), model.deformation(asked).numpy()
    vectors = weights["node_types.weight"][[0, 1, 1] * 5]
    h = affine("lift.linear", np.concatenate([u.numpy(), points.numpy(), vectors], axis=1))
    g = cells(shape) * 6 / 5
    h = gelu((to_grid @ mixed("analysis", fourier_matrix(k, here) @ h)).real + affine("places.0", g))
    for depth in range(2):
        wide = (to_grid @ mixed(f"layers.{depth}.spectral.mixing", from_grid @ h)).real
        h = gelu(wide + affine(f"layers.{depth}.skip", h) + affine(f"places.{depth + 1}", g))
    h = (real_inverse_matrix(k, there) @ mixed("synthesis", from_grid @ h)).real + affine("place", asked.numpy())
    expected = affine("last", gelu(affine("head", h)))
    found = model(u[None], points, 1, asked if queries else None, node_type=kinds)[0, 0]
    assert relative_error(found, torch.from_numpy(expected)) < 1e-12


def test_symmetries_share_weights_and_differ_in_answers():
    fixed, legacy = small().build().double(), small(symmetry="legacy").build().double()
    legacy.load_state_dict(fixed.state_dict())
    u, points = random_cloud(15, 2, seed=1)[None], random_cloud(15, 2)
    assert relative_error(legacy(u, points, 1), fixed(u, points, 1)) > 1e-4


def test_the_center_of_the_deformation_is_an_argument():
    u, points = random_cloud(15, 2, seed=1)[None], random_cloud(15, 2)
    first, second = (small(deformation_center=center).build().double() for center in (1e-4, (0.5, 0.5)))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert relative_error(second(u, points, 1), first(u, points, 1)) > 1e-6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"latent_size": 3}, "latent_size must be at least 4 for 2 modes, got 3"),
        ({"deformation_center": (0.5,)}, "deformation_center needs one number, or 2 of them"),
        ({"layers": 1}, "layers: "),
        ({"symmetry": "broken"}, "symmetry: "),
        ({"node_types": (4, 4)}, "node_types must differ"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        small(**changes)
