"""The deformation against its formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from calm_pde.models.size import num_parameters
from calm_pde.nn.deformation import Deformation, around
from tests.clouds import random_cloud, relative_error


def test_equals_the_formula_in_numpy():
    module = Deformation(2, 8, (0.3, 0.6), torch.Generator().manual_seed(0)).double()
    weights = {name: value.detach().numpy() for name, value in module.named_parameters()}

    def affine(name, y):
        return y @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    x = random_cloud(12, 2)
    dx, dy = x.numpy().T[0] - 0.3, x.numpy().T[1] - 0.6
    d = np.column_stack([x.numpy(), np.arctan2(dy, dx), np.sqrt(dx**2 + dy**2)])
    phases = np.concatenate([[[math.pi * 2**j * value for value in row for j in range(2)]] for row in d])
    y = affine("join", np.concatenate([affine("first", d), np.sin(phases), np.cos(phases)], axis=1))
    for depth in range(3):
        y = np.tanh(affine(f"hidden.{depth}", y))
    expected = x.numpy() * (1 + affine("last", y))
    assert relative_error(module(x), torch.from_numpy(expected)) < 1e-13


def test_count_and_fixed_origin():
    module = Deformation(2, 32, (1e-4, 1e-4))
    assert num_parameters(module) == 62_370
    assert module(torch.zeros(1, 2)).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_angles_and_distance_give_the_position_back(dim):
    x, center = random_cloud(10, dim), random_cloud(1, dim, seed=1)[0]
    features = around(x, center)
    assert features.shape == (10, 2 * dim)
    r = features[:, -1]
    assert torch.allclose(r, (x - center).norm(dim=-1))
    if dim == 2:
        back = torch.stack([r * features[:, 2].cos(), r * features[:, 2].sin()], dim=-1)
    elif dim == 3:
        azimuth, polar = features[:, 3], features[:, 4]
        back = torch.stack([r * polar.sin() * azimuth.cos(), r * polar.sin() * azimuth.sin(), r * polar.cos()], dim=-1)
    else:
        back = r[:, None] * torch.sign(x - center)
    assert torch.allclose(back + center, x)
