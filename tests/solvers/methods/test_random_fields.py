"""Random initial fields: their formulas, their distribution, and draws that do not depend on the resolution."""

from __future__ import annotations

import numpy as np

from calm_pde.geometry import cell_centers
from calm_pde.solvers.methods.random_fields import few_sines, gaussian_modes, many_sines, window, window_edges
from calm_pde.solvers.methods.spectral import Torus


def test_many_sines_term_by_term():
    axes = [cell_centers(5), cell_centers(4), cell_centers(3)]
    x, y, z = np.meshgrid(*axes, indexing="ij")
    phase = np.random.default_rng(0).uniform(0.0, 2 * np.pi, size=(4, 4, 4))
    waves, expected = [-2, -1, 1, 2], np.zeros((5, 4, 3))
    for (a, b, c), shift in np.ndenumerate(phase):
        i, j, k = waves[a], waves[b], waves[c]
        expected += np.sin(2 * np.pi * (i * x + j * y + k * z) + shift) / (2 * np.pi * np.sqrt(i * i + j * j + k * k))
    assert np.allclose(many_sines(np.random.default_rng(0), axes, highest=2), expected, atol=1e-13)


def test_few_sines_have_few_waves_and_the_published_spread():
    places = cell_centers(64)
    fields = np.stack([few_sines(np.random.default_rng(seed), places) for seed in range(4000)])
    spectrum = np.abs(np.fft.rfft(fields, axis=1)) / 64
    plain = (spectrum[:, 9:] < 1e-12).all(axis=1)  # no absolute value, no window; 2·4 is the highest wave
    assert 0.78 < plain.mean() < 0.87  # 0.9 · 0.9, and signs that an absolute value leaves alone
    assert 0.65 < fields.std() < 0.80
    assert abs(fields.mean()) < 0.05
    assert 0.5 < fields[plain].mean(axis=1).std() < 0.7
    drawn = spectrum[plain, 1:9] > 1e-12
    assert set(drawn.sum(axis=1)) == {1, 2}
    once_two = drawn[:, [4, 6]].any()  # waves 5 and 7 are no multiple of one another within reach: never
    assert not once_two
    assert abs((drawn.sum(axis=1) == 1).mean() - 0.25) < 0.04


def test_windows_are_one_inside_and_zero_outside():
    draw = np.random.default_rng(0)
    for _ in range(50):
        left, right = window_edges(draw)
        assert 0.1 <= left <= 0.45
        assert 0.55 <= right <= 0.9
        values = window(np.array([0.0, left, (left + right) / 2, right, 1.0]), (left, right))
        assert np.allclose(values, [0, 0.5, 1, 0.5, 0], atol=1e-4)


def variance(squared_wave: np.ndarray) -> np.ndarray:
    return (1.0 + squared_wave) ** -2.0


def test_gaussian_modes_have_their_variance():
    """Mode by mode, of the field's own transform: (variance of 4,000 exponential variables: 1/√4000 = 1.6 %, bars at 5σ)."""
    torus, count = Torus(16, 2), 4000
    modes = np.stack([gaussian_modes(np.random.default_rng(seed), torus.highest, 2, variance) for seed in range(count)])
    values = torus.values(modes)
    spectrum = (np.abs(np.fft.fft2(values) / 256) ** 2).mean(axis=0)
    for i in range(-5, 6):
        for j in range(-5, 6):
            expected = variance(np.array(i * i + j * j)) if (i, j) != (0, 0) else 0.0
            assert abs(spectrum[i, j] - expected) <= 0.08 * expected + 1e-30, (i, j)
    assert abs(np.mean(modes[:, 1, 2] * modes[:, 2, 1].conj())) < 5 * variance(np.array(5)) / np.sqrt(count)
    assert abs(np.mean(modes[:, 1, 2] ** 2)) < 5 * variance(np.array(5)) / np.sqrt(count)


def test_a_higher_resolution_adds_modes_and_changes_none():
    for dim in (1, 2, 3):
        low = gaussian_modes(np.random.default_rng(1), 3, dim, variance)
        high = gaussian_modes(np.random.default_rng(1), 6, dim, variance)
        kept = np.concatenate([np.arange(4), np.arange(-3, 0)])
        assert np.array_equal(high[np.ix_(*[kept] * (dim - 1), np.arange(4))], low)


def test_modes_are_those_of_a_real_field():
    modes = gaussian_modes(np.random.default_rng(2), 5, 3, variance)
    torus = Torus(17, 3)
    assert torus.highest == 5
    assert np.allclose(torus.modes(torus.values(modes)), modes, atol=1e-15)
