"""Signals: against NumPy's interpolation, sample by sample."""

from __future__ import annotations

import numpy as np
import torch

from calm_pde.records.signals import Signals


def test_signals_are_linear_between_knots_and_level_beyond():
    draw = np.random.default_rng(0)
    times, values = np.sort(draw.uniform(-2, 9, (3, 6)), axis=1), draw.normal(size=(3, 6, 2))
    asked = np.linspace(-4, 12, 57)
    found = Signals(torch.tensor(times), torch.tensor(values)).at(torch.tensor(asked))
    for sample in range(3):
        for signal in range(2):
            expected = np.interp(asked, times[sample], values[sample, :, signal])
            assert np.abs(found[sample, :, signal].numpy() - expected).max() < 1e-13


def test_at_a_knot_it_is_the_knot():
    signals = Signals(torch.tensor([[0.0, 1.0, 2.5]]), torch.tensor([[[1.0], [7.0], [-3.0]]]))
    assert torch.equal(signals.at(signals.times[0]), signals.values)


def test_one_knot_is_a_constant():
    signals = Signals(torch.tensor([[0.5]]), torch.tensor([[[3.0]]]))
    assert signals.at(torch.tensor([0.0, 0.5, 4.0])).flatten().tolist() == [3.0, 3.0, 3.0]


def test_gradients_reach_the_values():
    times, values = torch.tensor([[0.0, 1.0, 2.0]]).double(), torch.randn(1, 3, 2).double().requires_grad_()
    asked = torch.tensor([0.25, 1.5]).double()
    assert torch.autograd.gradcheck(lambda given: Signals(times, given).at(asked), (values,))
