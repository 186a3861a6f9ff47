"""The noise schedule and its sampler against the published formulas, written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calm_pde.models.aroma.diffusion import NoiseSchedule

MINIMA = [1e-2, 1e-3, 1e-6]


def test_published_levels():
    schedule = NoiseSchedule(3, 1e-3)
    np.testing.assert_allclose(schedule.betas, [1e-3, 1e-2, 1e-1, 1.0], rtol=1e-14)
    np.testing.assert_allclose(schedule.kept, [0.999, 0.98901, 0.890109, 0.0], rtol=1e-14)
    assert schedule.kept[3] == 0.0  # pure noise


@pytest.mark.parametrize("minimum", MINIMA)
def test_coefficients_are_the_posterior_of_the_forward_process(minimum):
    """y_{k−1} given y_k and y, by Bayes' rule: N(√ᾱ_{k−1} y, 1 − ᾱ_{k−1}) times that of y_k = √(1 − β) y_{k−1} + √β ε."""
    schedule = NoiseSchedule(3, minimum)
    for level in (1, 2, 3):
        beta, before = schedule.betas[level], schedule.kept[level - 1]
        precision = 1 / (1 - before) + (1 - beta) / beta
        wanted = (np.sqrt(before) / (1 - before) / precision, np.sqrt(1 - beta) / beta / precision, precision**-0.5)
        np.testing.assert_allclose(schedule.weights(level), wanted, rtol=1e-9, atol=1e-15)


def test_the_first_guess_is_minus_the_velocity():
    y, v = torch.randn(2, 5, 3), torch.randn(2, 5, 3)
    assert torch.equal(NoiseSchedule(3, 1e-3).clean(y, v, 3), -v)


@pytest.mark.parametrize("minimum", MINIMA)
@pytest.mark.parametrize("steps", [1, 3, 5])
def test_an_oracle_velocity_gives_the_sample_back(minimum, steps):
    schedule, y = NoiseSchedule(steps, minimum), torch.randn(2, 5, 3, dtype=torch.float64)
    levels = []

    def velocity(noised, level):
        levels.append(level)
        return (schedule.kept[level] ** 0.5 * noised - y) / (1 - schedule.kept[level]) ** 0.5

    found = schedule.sample(velocity, list(torch.randn(steps + 1, 2, 5, 3, dtype=torch.float64)))
    torch.testing.assert_close(found, y, rtol=0, atol=1e-12)
    assert levels == list(range(steps, -1, -1))


@pytest.mark.parametrize("minimum", MINIMA)
def test_noised_samples_and_velocities_at_each_samples_own_level(minimum):
    schedule = NoiseSchedule(3, minimum)
    y, noise, levels = torch.randn(4, 6, 2).double(), torch.randn(4, 6, 2).double(), torch.tensor([3, 0, 2, 1])
    noised, velocity = schedule.noised(y, noise, levels)
    for sample, level in enumerate(levels.tolist()):
        kept = np.prod(1 - np.array([minimum, minimum ** (2 / 3), minimum ** (1 / 3), 1.0])[: level + 1])
        torch.testing.assert_close(noised[sample], kept**0.5 * y[sample] + (1 - kept) ** 0.5 * noise[sample])
        torch.testing.assert_close(velocity[sample], kept**0.5 * noise[sample] - (1 - kept) ** 0.5 * y[sample])
        torch.testing.assert_close(schedule.clean(noised[sample], velocity[sample], level), y[sample])
