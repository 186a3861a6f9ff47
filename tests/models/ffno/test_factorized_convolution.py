"""F-FNO's block against dense Fourier matrices, and its start."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calm_pde.models.ffno.factorized_convolution import AxisConvolution, FactorizedBlock
from calm_pde.nn.pointwise import WeightNormLinear, channels_first
from tests.clouds import relative_error
from tests.nn.fourier_matrices import cells, fourier_matrix, real_inverse_matrix, wavenumbers
from tests.nn.test_spectral_convolution import band_limited, noise


def axis_convolution(weight: np.ndarray, x: np.ndarray, axis: int) -> np.ndarray:
    """(row, channel, *space) by the orthonormal Fourier matrices of one axis."""
    size, k = x.shape[axis], wavenumbers(len(weight), 1)
    forward = fourier_matrix(k, cells((size,))) / np.sqrt(size)
    inverse = real_inverse_matrix(k, cells((size,))) / np.sqrt(size)
    along = np.moveaxis(x, axis, -1)
    mixed = np.einsum("ri...k,kio->ro...k", along @ forward.T, weight @ [1, 1j])
    return np.moveaxis((mixed @ inverse.T).real, -1, axis)


@pytest.mark.parametrize("weight_norm", [False, True])
@pytest.mark.parametrize("shape", [(9,), (7, 8), (6, 7, 5)])
def test_block_equals_the_formula_in_numpy(shape, weight_norm):
    block = FactorizedBlock(3, 3, len(shape), 2, weight_norm, torch.Generator().manual_seed(0)).double()
    h = noise(2, 3, *shape)
    total = np.zeros(h.shape)
    for axis, convolution in enumerate(block.axes, start=2):
        total += axis_convolution(convolution.weight.detach().numpy(), h.numpy(), axis)
    first, second = ((layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in (block.expand, block.reduce))
    y = np.moveaxis(total, 1, -1) @ first[0].T + first[1]
    y = np.maximum(y, 0) @ second[0].T + second[1]
    assert relative_error(block(h), torch.from_numpy(np.moveaxis(y, -1, 1).copy())) < 1e-13


def test_weights_of_one_return_what_is_band_limited_along_the_axis():
    convolution = AxisConvolution(1, 3).double()
    with torch.no_grad():
        convolution.weight.copy_(torch.tensor([1.0, 0.0]).expand_as(convolution.weight))
    x = band_limited((8, 9), 2)[None, None]
    for axis in (2, 3):
        assert relative_error(convolution(x, axis), x) < 1e-13


def test_initial_spread():
    weight = AxisConvolution(24, 14, torch.Generator().manual_seed(0)).weight.detach()
    assert weight.shape == (14, 24, 24, 2)
    assert float(weight.std()) == pytest.approx(0.0386, rel=0.02)


def test_weight_norm_starts_as_a_plain_layer_and_learns_lengths_apart():
    layer = WeightNormLinear(3, 4, torch.Generator().manual_seed(0)).double()
    assert relative_error(layer.weight, layer.direction) < 1e-6
    x, before = noise(1, 3, 5), layer.weight.detach().clone()
    with torch.no_grad():
        layer.direction.mul_(7)
        layer.length.mul_(2)
    assert relative_error(layer.weight, 2 * before) < 1e-13
    channels_first(layer, x).square().sum().backward()
    radial = (layer.direction.grad * layer.direction).sum(dim=1)
    assert float(radial.detach().abs().max()) < 1e-13  # stretching a direction changes nothing
