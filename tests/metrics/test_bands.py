"""Fourier bands by single modes and by Parseval."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from calm_pde.geometry import tensor_grid
from calm_pde.metrics.bands import band_energies


@pytest.mark.parametrize(("wave", "band"), [((0, 0), "low"), ((3, -3), "low"), ((3, 4), "middle"), ((12, 4), "middle")])
@pytest.mark.parametrize("height", [1.0, 3.0])
def test_a_single_mode_lands_in_its_band_with_all_its_energy(wave, band, height):
    points = tensor_grid(np.arange(32) / 32, np.arange(30) / 30)
    values = height * np.cos(2 * np.pi * points @ wave + 0.3)
    found = band_energies(torch.from_numpy(values)[None, None, :, None], (32, 30))
    assert set(found) == {"low", "middle", "high"}
    for name, energy in found.items():
        assert energy.item() == pytest.approx(np.square(values).sum() if name == band else 0.0, abs=1e-9)


@pytest.mark.parametrize("shape", [(40,), (32, 30), (6, 10, 28)])
def test_the_bands_share_the_whole_energy(shape):
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, math.prod(shape), 2)))
    total = sum(band_energies(values, shape).values())
    torch.testing.assert_close(total, values.square().sum(dim=(0, 1, 2)))


def test_a_coarse_grid_has_no_high_band():
    assert list(band_energies(torch.zeros(1, 1, 8, 1), (8,))) == ["low"]
