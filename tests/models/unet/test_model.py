"""The U-Net: counts, its borders and a step against numpy, shifts, and sizes that eight does not divide."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.signal import correlate
from scipy.special import erf

from calm_pde.errors import ConfigError
from calm_pde.models.size import num_parameters
from calm_pde.models.unet.convolution import Convolution, bordered, twice
from calm_pde.models.unet.model import UNet, UNetConfig
from tests.clouds import grid, relative_error
from tests.nn.fourier_matrices import cells

COUNTS = {"burgers_1d": 782_017, "navier_stokes_2d": 2_336_641, "compressible_3d": 7_004_101}


def small(**changes: Any) -> UNet:
    return (
        UNetConfig.model_validate({"dim": 2, "in_channels": 2, "out_channels": 2, "width": 8} | changes).build(seed=1).double()
    )


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def parameters(width: int, dim: int, fields: int) -> int:
    """The closed form: blocks (i, o) = 3^d·(i + o)·o + 2o + 4o, and convolutions down, up and out."""

    def convolution(inputs: int, outputs: int) -> int:
        return 3**dim * inputs * outputs + outputs

    def block(inputs: int, outputs: int) -> int:
        return convolution(inputs, outputs) + convolution(outputs, outputs) + 4 * outputs

    found = block(fields, width) + width * fields + fields
    for fine in (width, 2 * width, 4 * width):
        found += convolution(fine, fine) + block(fine, 2 * fine) + convolution(2 * fine, fine) + block(2 * fine, fine)
    return found


@pytest.mark.parametrize("name", UNetConfig.presets)
def test_counts(name):
    config = UNetConfig.preset(name)
    found = num_parameters(config.build())
    assert found == parameters(config.width, config.dim, config.in_channels) == COUNTS.get(name, found)
    assert found <= 500_000 or name in COUNTS


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2])
def test_a_convolution_equals_scipys(dim, stride):
    """Around periodic axes, and with the border repeated on others."""
    periodic = (True, False, True)[:dim]
    layer = Convolution(2, 3, periodic, torch.Generator().manual_seed(0), stride).double()
    h = noise(1, 2, *(6, 4, 8)[:dim])
    around = h[0].numpy()
    for axis, wraps in enumerate(periodic, start=1):
        sides = [(int(place == axis),) * 2 for place in range(dim + 1)]
        around = np.pad(around, sides, mode="wrap" if wraps else "edge")
    weight, bias = layer.weight.detach().numpy().reshape(3, *(3,) * dim, 2), layer.bias.detach().numpy()
    weight = np.moveaxis(weight, -1, 1)
    rows = [sum(correlate(around[i], weight[o, i], mode="valid") for i in range(2)) + bias[o] for o in range(3)]
    expected = np.stack(rows)[(slice(None), *(slice(None, None, stride) for _ in range(dim)))]
    assert relative_error(layer(h)[0], torch.from_numpy(expected)) < 1e-13


def test_borders_go_around_however_often_or_repeat():
    h = torch.arange(3.0).view(1, 1, 3)
    assert bordered(h, 1, (5,), (True,)).flatten().tolist() == [2, 0, 1, 2, 0]
    assert bordered(h, 1, (5,), (False,)).flatten().tolist() == [0, 0, 1, 2, 2]
    assert bordered(h, 0, (8,), (True,)).flatten().tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert bordered(h, 0, (8,), (False,)).flatten().tolist() == [0, 1, 2, 2, 2, 2, 2, 2]
    assert twice(torch.tensor([[[[1.0, 2.0]]]])).tolist() == [[[[1, 1, 2, 2], [1, 1, 2, 2]]]]


def test_equals_the_formula_in_numpy():
    """Of one axis, whose convolutions are sums over shifted rows."""
    model, u = small(dim=1, periodic=True).eval(), noise(16, 2)
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}

    def convolution(name: str, h: np.ndarray, stride: int = 1) -> np.ndarray:
        w = np.split(weights[f"{name}.weight"], 3, axis=1)
        shifted = sum(w[k] @ np.roll(h, 1 - k, axis=1) for k in range(3))
        return (shifted + weights[f"{name}.bias"][:, None])[:, ::stride]

    def block(name: str, h: np.ndarray) -> np.ndarray:
        for place, part in enumerate(("first", "second")):
            h = convolution(f"{name}.{part}", h)
            groups = h.reshape(8, -1)
            normed = (groups - groups.mean(axis=1, keepdims=True)) / np.sqrt(groups.var(axis=1, keepdims=True) + 1e-5)
            scale, shift = (weights[f"{name}.norms.{place}.{kind}"][:, None] for kind in ("weight", "bias"))
            h = normed.reshape(h.shape) * scale + shift
            h = h * (1 + erf(h / math.sqrt(2))) / 2
        return h

    levels = [block("first", u.numpy().T)]
    for level in range(3):
        levels.append(block(f"inner.{level}", convolution(f"down.{level}", levels[-1], 2)))
    h = levels.pop()
    for level in range(3):
        up = convolution(f"up.{level}", np.repeat(h, 2, axis=1))
        h = block(f"outer.{level}", np.concatenate([levels.pop(), up]))
    expected = u.numpy() + (weights["last.weight"] @ h).T + weights["last.bias"]
    found = model(u[None], grid(16, 1), 1)[0, 0]
    assert relative_error(found, torch.from_numpy(expected)) < 1e-12


def test_shifts_by_eight_cells_on_periodic_axes():
    model, u, points = small(periodic=True), noise(1, 256, 2), grid(16, 2)

    def rolled(values: torch.Tensor, by: tuple[int, int]) -> torch.Tensor:
        return values.unflatten(-2, (16, 16)).roll(by, dims=(-3, -2)).flatten(-3, -2)

    answer = model(u, points, 2)
    assert relative_error(model(rolled(u, (8, 8)), points, 2), rolled(answer, (8, 8))) < 1e-12
    assert relative_error(model(rolled(u, (3, 0)), points, 2), rolled(answer, (3, 0))) > 1e-3
    half = small(periodic=(True, False))
    answer = half(u, points, 1)
    assert relative_error(half(rolled(u, (8, 0)), points, 1), rolled(answer, (8, 0))) < 1e-12
    assert relative_error(half(rolled(u, (0, 8)), points, 1), rolled(answer, (0, 8))) > 1e-3


@pytest.mark.parametrize("sizes", [(24,), (5, 11), (3, 4, 9)], ids=str)
def test_other_sizes_are_padded_and_cropped(sizes):
    """As the same field on the larger grid, whose further cells repeat the border."""
    dim = len(sizes)
    model, u = small(dim=dim), noise(1, math.prod(sizes), 2)
    larger = tuple(-(-size // 8) * 8 for size in sizes)
    padded = bordered(u[0].T.reshape(1, 2, *sizes), 0, larger, (False,) * dim)
    whole = model(padded.flatten(2).mT, torch.from_numpy(cells(larger)), 1)[0, 0].view(*larger, 2)
    cropped = whole[tuple(slice(size) for size in sizes)].reshape(-1, 2)
    assert relative_error(model(u, torch.from_numpy(cells(sizes)), 1)[0, 0], cropped) < 1e-12


def test_it_is_told_kinds_of_points():
    model, u, points = small(node_types=(0, 4)), noise(1, 64, 2), grid(8, 2)
    kinds = torch.zeros(64, dtype=torch.int64)
    found = model(u, points, 1, node_type=kinds)
    kinds[10] = 4
    assert relative_error(model(u, points, 1, node_type=kinds), found) > 1e-6


def test_a_width_that_its_norms_can_not_group_is_refused():
    with pytest.raises(ConfigError, match="width must be a multiple of the 8 groups of its norms, got 12"):
        small(width=12)
