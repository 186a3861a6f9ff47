"""Transforms between scattered points and modes, against dense matrices and the FFT."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from calm_pde.nn import nudft
from calm_pde.nn.nudft import NonuniformTransform, conjugate_waves, waves
from calm_pde.nn.spectral_convolution import field_of_modes, kept_modes, kept_shape
from tests.clouds import random_cloud, relative_error
from tests.nn.fourier_matrices import cells, fourier_matrix, real_inverse_matrix, wavenumbers
from tests.nn.test_spectral_convolution import band_limited, noise

SHAPES = {1: (11,), 2: (9, 8), 3: (7, 6, 8)}


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return relative_error(torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj()))


def random_spectrum(dim: int, rows: int = 2, modes: int = 3) -> torch.Tensor:
    return torch.view_as_complex(noise(1, rows, *kept_shape(modes, dim), 2, seed=4))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_scattered_points_against_dense_matrices(dim):
    points, values = 3 * random_cloud(20, dim) - 1, noise(1, 2, 20)
    k = wavenumbers(3, dim)
    expected = values[0].numpy() @ fourier_matrix(k, points.numpy()).T
    found = NonuniformTransform(waves(points[None], 3)).modes_of(values)
    assert difference(found[0].flatten(1), torch.from_numpy(expected)) < 1e-13
    spectrum = random_spectrum(dim)
    expected = (spectrum[0].flatten(1).numpy() @ real_inverse_matrix(k, points.numpy()).T).real
    found = NonuniformTransform(conjugate_waves(points[None], 3, "fixed")).values_of(spectrum)
    assert relative_error(found[0], torch.from_numpy(expected)) < 1e-13


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_on_a_uniform_grid_they_are_the_fft(dim):
    shape = SHAPES[dim]
    points = torch.from_numpy(cells(shape))[None]
    x = noise(1, 2, *shape)
    assert difference(NonuniformTransform(waves(points, 3)).modes_of(x.flatten(2)), kept_modes(x, 3)) < 1e-12
    spectrum = random_spectrum(dim)
    back = NonuniformTransform(conjugate_waves(points, 3, "fixed")).values_of(spectrum) / math.prod(shape)
    assert relative_error(back, field_of_modes(spectrum, shape).flatten(2)) < 1e-12


def test_fixed_symmetry_returns_a_band_limited_field_and_legacy_does_not():
    points = torch.from_numpy(cells((12, 12)))[None]
    x = band_limited((12, 12), 2).view(1, 1, -1)
    spectrum = NonuniformTransform(waves(points, 3)).modes_of(x)
    errors = {
        symmetry: relative_error(NonuniformTransform(conjugate_waves(points, 3, symmetry)).values_of(spectrum) / 144, x)
        for symmetry in ("fixed", "legacy")
    }
    assert errors["fixed"] < 1e-12
    assert errors["legacy"] > 0.5


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_legacy_symmetry_is_the_mirrored_spectrum(dim):
    """Modes with k_last = −q are the conjugates of those with q, with all rows in reverse, in the order 0 … m−1, −m … −1."""
    spectrum, points = random_spectrum(dim, rows=1), random_cloud(15, dim)
    kept = spectrum[0, 0].numpy()
    mirrored = np.flip(kept[..., 1:], axis=tuple(range(dim - 1))).conj()
    k = wavenumbers(3, dim).reshape(*kept.shape, dim)
    negative = k[..., 1:, :] * ([1] * (dim - 1) + [-1])
    expected = 0.0
    for values, numbers in ((kept, k), (mirrored, negative)):
        expected = expected + values.flatten() @ fourier_matrix(numbers.reshape(-1, dim), points.numpy()).conj()
    found = NonuniformTransform(conjugate_waves(points[None], 3, "legacy")).values_of(spectrum)
    assert relative_error(found[0, 0], torch.from_numpy(expected.real)) < 1e-13


@pytest.mark.parametrize("clouds", [1, 2])
def test_chunks_change_nothing(clouds, monkeypatch):
    def run():
        points = torch.stack([random_cloud(10, 2, seed) for seed in range(clouds)]).requires_grad_()
        values = noise(clouds, 3, 10).requires_grad_()
        spectrum = NonuniformTransform(waves(points, 3)).modes_of(values)
        back = NonuniformTransform(conjugate_waves(points, 3, "legacy")).values_of(spectrum)
        back.square().sum().backward()
        return back.detach(), points.grad, values.grad

    whole = run()
    monkeypatch.setattr(nudft, "_BASIS_BYTES", clouds * 18 * 16 * 4)  # four points at a time
    assert NonuniformTransform(waves(random_cloud(10, 2)[None].expand(clouds, 10, 2), 3)).chunk == 4
    for before, after in zip(whole, run(), strict=True):
        assert relative_error(after, before) < 1e-12
