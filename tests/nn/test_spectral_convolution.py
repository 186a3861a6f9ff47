"""Spectral convolutions against dense Fourier matrices, in one to three dimensions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calm_pde.nn.spectral_convolution import SpectralConvolution, field_of_modes, kept_modes
from tests.clouds import relative_error
from tests.nn.fourier_matrices import cells, fourier_matrix, real_inverse_matrix, wavenumbers

SHAPES = [(11,), (12,), (9, 8), (8, 11), (7, 6, 6), (6, 8, 5)]


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def band_limited(shape: tuple[int, ...], highest: int, seed: int = 0) -> torch.Tensor:
    """A random real field with |k_a| ≤ highest, by its sum of waves."""
    dim = len(shape)
    k = np.stack(np.meshgrid(*[np.arange(-highest, highest + 1)] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    rng = np.random.default_rng(seed)
    phase = 2 * np.pi * cells(shape) @ k.T + rng.uniform(0, 2 * np.pi, len(k))
    return torch.from_numpy((np.cos(phase) @ rng.normal(size=len(k))).reshape(shape))


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_dense_fourier_matrices(shape):
    dim = len(shape)
    layer = SpectralConvolution(3, 4, 3, dim, torch.Generator().manual_seed(1)).double()
    x = noise(2, 3, *shape)
    k, where = wavenumbers(3, dim), cells(shape)
    weight = layer.mixing.weight.detach().numpy().reshape(len(k), 3, 4, 2)
    mixed = np.einsum("kn,rin,kio->rok", fourier_matrix(k, where), x.reshape(2, 3, -1).numpy(), weight @ [1, 1j])
    expected = np.einsum("nk,rok->ron", real_inverse_matrix(k, where), mixed).real / len(where)
    assert relative_error(layer(x), torch.from_numpy(expected).view(2, 4, *shape)) < 1e-13


@pytest.mark.parametrize("shape", SHAPES)
def test_kept_modes_are_a_part_of_the_whole_transform(shape):
    x = noise(1, 1, *shape)
    whole = torch.fft.rfftn(x, dim=tuple(range(2, 2 + len(shape))))
    k = torch.from_numpy(wavenumbers(3, len(shape)))
    expected = whole[0, 0][tuple(axis % n for axis, n in zip(k.T, shape, strict=True))]
    assert relative_error(torch.view_as_real(kept_modes(x, 3).flatten()), torch.view_as_real(expected)) < 1e-13


@pytest.mark.parametrize("shape", SHAPES)
def test_weights_of_one_return_band_limited_fields(shape):
    layer = SpectralConvolution(1, 1, 3, len(shape)).double()
    with torch.no_grad():
        layer.mixing.weight.copy_(torch.tensor([1.0, 0.0]).expand_as(layer.mixing.weight))
    x = band_limited(shape, 2)[None, None]
    assert relative_error(layer(x), x) < 1e-13
    assert relative_error(field_of_modes(kept_modes(x, 3), shape), x) < 1e-13
    rough = noise(1, 1, *shape)
    assert relative_error(layer(rough), rough) > 0.1


def test_finer_grids_show_the_same_field():
    layer = SpectralConvolution(1, 1, 3, 2).double()
    coarse, fine = band_limited((8, 8), 2), band_limited((24, 16), 2)
    assert relative_error(layer(fine[None, None])[0, 0, ::3, ::2], layer(coarse[None, None])[0, 0]) < 1e-13


def test_initial_weights():
    weight = SpectralConvolution(20, 10, 6, 2, torch.Generator().manual_seed(0)).mixing.weight.detach()
    assert weight.shape == (12, 6, 20, 10, 2)
    assert 0 <= float(weight.min()) < 1e-6
    assert float(weight.max()) == pytest.approx(1 / 200, rel=1e-3)
    assert float(weight.mean()) == pytest.approx(1 / 400, rel=1e-2)


def test_gradients():
    layer = SpectralConvolution(2, 2, 2, 2).double()

    def output(x, weight):
        return torch.func.functional_call(layer, {"mixing.weight": weight}, (x,))

    assert torch.autograd.gradcheck(
        output, (noise(1, 2, 5, 4).requires_grad_(), layer.mixing.weight.detach().clone().requires_grad_())
    )
