"""What conditions do to ψ: as the equations say, at the stepper's own times, and nothing at first."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from calm_pde.models.calm.processor.modulator import Modulator
from calm_pde.models.calm.processor.processor import Processor
from calm_pde.models.conditions import Known
from calm_pde.records.signals import Signals
from tests import oracle
from tests.clouds import random_cloud, relative_error

SIZES = {"width": 12, "heads": 3, "blocks": 2, "fourier_width": 4, "fourier_std": 0.7}
TIMES = torch.tensor([[0.0, 0.6, 2.5], [-0.5, 1.2, 3.0]], dtype=torch.float64)


def built(conditions: int, stirred: bool = True) -> Processor:
    generator = torch.Generator().manual_seed(3)
    modulator = Modulator(conditions, SIZES["blocks"], SIZES["width"], seed=3) if conditions else None
    processor = Processor(4, 2, (True, False), **SIZES, modulator=modulator, generator=generator).double()
    with torch.no_grad():
        for parameter in processor.parameters() if stirred else ():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return processor


def known() -> Known:
    """Two parameters and a signal for each of two samples."""
    return Known(random_cloud(2, 2, seed=1) - 0.5, Signals(TIMES, random_cloud(6, 1, seed=2).view(2, 3, 1) - 0.5))


@pytest.mark.parametrize(("integrator", "substeps"), [("euler", 2), ("rk4", 1)])
def test_steps_under_conditions_equal_the_oracle(integrator, substeps):
    """Each evaluation of ψ sees c at its own time and a frame later, the last one in a side step."""
    processor, told, z, p = built(4), known(), random_cloud(10, 4).view(2, 5, 4) - 0.5, random_cloud(5, 2, seed=5)
    found = processor.at(p).under(told).trajectory(z, [1.0, 1.3], integrator, substeps)
    w = oracle.weights_of(processor)
    knots, values, parameters = TIMES.numpy(), told.course.values.numpy(), told.parameters.numpy()
    for sample in range(2):

        def rate(state: np.ndarray, time: float, sample: int = sample) -> np.ndarray:
            now, ahead = (oracle.linear_signal(knots[sample], values[sample], at) for at in (time, time + 1))
            changes = oracle.modulation(w, np.concatenate([parameters[sample], now, ahead]), blocks=2)
            return oracle.processor(w, state, p.numpy(), heads=3, blocks=2, periodic=(True, False), changes=changes)

        def step(state: np.ndarray, time: float, h: float) -> np.ndarray:
            first = rate(state, time)
            if integrator == "euler":
                return state + h * first
            second = rate(state + h / 2 * first, time + h / 2)
            third = rate(state + h / 2 * second, time + h / 2)
            last = rate(state + h * third, time + h)
            return state + h / 6 * (first + 2 * second + 2 * third + last)

        state = z[sample].numpy()
        for number in range(substeps):
            state = step(state, number / substeps, 1 / substeps)
        np.testing.assert_allclose(found[sample, 1].detach(), state, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found[sample, 2].detach(), step(state, 1.0, 0.3), rtol=1e-10, atol=1e-12)


def test_at_first_conditions_change_nothing():
    """All other weights are those of a model without, to the bit, and so are its steps, but for rounding."""
    told, plain = built(4, stirred=False), built(0, stirred=False)
    others = told.state_dict()
    assert all(torch.equal(value, others[name]) for name, value in plain.state_dict().items())
    z, p = random_cloud(10, 4).view(2, 5, 4) - 0.5, random_cloud(5, 2, seed=5)
    found = told.at(p).under(known()).trajectory(z, [1.0, 2.5], "rk4", 2)
    assert relative_error(found, plain.at(p).trajectory(z, [1.0, 2.5], "rk4", 2)) < 1e-13
    found.square().sum().backward()
    assert float(told.modulator.reduce.weight.grad.abs().max()) > 1e-6  # and they can learn to


class Waves:
    """A smooth signal that is known exactly."""

    def at(self, times: torch.Tensor) -> torch.Tensor:
        return torch.stack([torch.sin(2 * times), torch.cos(3 * times)], dim=-1).expand(2, -1, -1)


def test_observed_order_of_rk4_under_a_signal():
    """4 ± 0.2."""
    processor, z, p = built(4), random_cloud(10, 4).view(2, 5, 4) - 0.5, random_cloud(5, 2, seed=5)
    dynamics = processor.at(p).under(Known(None, Waves()))
    with torch.no_grad():
        ends = [dynamics.trajectory(z, [1.0, 1.5], "rk4", steps)[:, -1] for steps in (16, 32, 64, 256)]
        errors = [float((end - ends[-1]).norm()) for end in ends[:-1]]
    orders = [math.log2(coarse / fine) for coarse, fine in itertools.pairwise(errors)]
    assert orders[-1] == pytest.approx(4, abs=0.2)


def test_parameters_alone_are_modulated_once():
    modulation = built(2).modulator(Known(random_cloud(2, 2), None), [0.0, 0.5, 1.0, 0.5])
    assert modulation.table.shape == (1, 2, 2, 2, 3, 12)
    varying = built(4).modulator(Known(None, Waves()), [0.0, 0.5, 1.0, 0.5])
    assert varying.table.shape == (3, 2, 2, 2, 3, 12)
    assert [varying.place(time) for time in (0.0, 0.5, 1.0)] == [0, 1, 2]
