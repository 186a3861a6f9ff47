"""The processor's damping: against the oracle, within its bounds, and which of its weights are what to an optimizer."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from calm_pde.engine.stepping import INTEGRATORS
from calm_pde.models.calm.processor.damping import DAMPINGS
from calm_pde.models.calm.processor.processor import Processor
from calm_pde.nn.matrices import Matrices
from calm_pde.train.optimizers.adamw import decays
from tests import oracle
from tests.clouds import random_cloud, relative_error
from tests.models.calm.test_model import small

damped = pytest.mark.parametrize("damping", ["diagonal", "full"])
SIZES = {"heads": 2, "fourier_width": 6}


def processor_of(damping: str, channels: int = 6) -> Processor:
    generator = torch.Generator().manual_seed(0)
    sizes = {"width": 12, "heads": 3, "blocks": 2, "fourier_width": 8, "fourier_std": 1.0}
    return Processor(channels, 2, (True, False), **sizes, damping=damping, generator=generator).double()


def damping_of(w: dict[str, np.ndarray]) -> np.ndarray:
    """A by its eigenvalues γ/(1 + γ), those of Γ being γ."""
    if "damping.raw_rates" in w:
        free = [math.log(1 + math.exp(a)) for a in w["damping.raw_rates"]]
        return np.diag([rate / (1 + rate) for rate in free])
    g = w["damping.factor"]
    gram = np.array([[sum(g[k, i] * g[k, j] for k in range(len(g))) for j in range(len(g))] for i in range(len(g))])
    free, directions = np.linalg.eigh(gram)
    return sum(max(r, 0) / (1 + max(r, 0)) * np.outer(v, v) for r, v in zip(free, directions.T, strict=True))


@damped
@pytest.mark.parametrize(("integrator", "substeps"), [("euler", 1), ("euler", 2), ("heun", 1)])
def test_steps_equal_the_oracle(damping, integrator, substeps):
    processor = processor_of(damping)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in processor.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    z, p = random_cloud(2 * 5, 6).view(2, 5, 6) - 0.5, random_cloud(5, 2, seed=1)
    found = processor.at(p).trajectory(z, [1.0, 2.0], integrator, substeps)
    w, size = oracle.weights_of(processor), 1 / substeps
    a = damping_of(w)

    def rate(state: np.ndarray) -> np.ndarray:
        psi = oracle.processor(w, state, p.numpy(), heads=3, blocks=2, periodic=(True, False))
        return np.array([psi[token] - a @ state[token] for token in range(len(state))])

    for sample in range(2):
        state = z[sample].numpy()
        for frame in range(2):
            for _ in range(substeps):
                first = rate(state)
                slope = first if integrator == "euler" else (first + rate(state + size * first)) / 2
                state = state + size * slope
            assert relative_error(found[sample, 1 + frame], torch.from_numpy(state)) < 1e-12


@damped
@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e4])
def test_whatever_is_learned_it_only_shrinks(damping, strength):
    """Eigenvalues in [0, 1]; with a silent ψ no step of any method makes the state longer, in single precision either."""
    processor = processor_of(damping).float()
    weight = next(iter(processor.damping.parameters()))
    with torch.no_grad():
        weight.copy_(strength * torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)))
        processor.to_out.weight.zero_()
        processor.to_out.bias.zero_()
    a = processor.damping().detach()
    assert float((a - a.T).abs().max()) < 1e-5
    eigenvalues = torch.linalg.eigvalsh(a.double())
    assert float(eigenvalues.min()) > -1e-5
    assert float(eigenvalues.max()) < 1 + 1e-5
    z = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(3))
    for integrator in INTEGRATORS:
        for substeps in (1, 3):
            states = processor.at(torch.rand(5, 2)).trajectory(z, [0.5, *map(float, range(1, 9))], integrator, substeps)
            lengths = states.detach().flatten(2).norm(dim=-1)[:, [0, *range(2, 10)]]
            assert bool((lengths[:, 1:] <= lengths[:, :-1] * (1 + 1e-5)).all())


@pytest.mark.parametrize("strength", [1e-2, 1.0, 30.0])
def test_a_frame_of_euler_is_an_implicit_step(strength):
    """Where ψ is silent: z(t + 1) = (I + Γ)⁻¹ z(t)."""
    processor = processor_of("full")
    with torch.no_grad():
        processor.damping.factor.copy_(strength * torch.randn(6, 6, generator=torch.Generator().manual_seed(4)))
        processor.to_out.weight.zero_()
        processor.to_out.bias.zero_()
    z, g = random_cloud(5, 6)[None], processor.damping.factor.detach()
    later = processor.at(random_cloud(5, 2)).trajectory(z, [1.0], "euler", 1)[:, 1].detach()
    assert relative_error(later + later @ g.T @ g, z) < 1e-10


def test_it_starts_small_and_draws_nothing():
    """Rates of 1e-3 to 1e-2 per frame, the same in both forms; all other weights are those of a model without."""
    models = {damping: small(processor=SIZES | {"damping": damping}).build(seed=4) for damping in DAMPINGS}
    plain = models["none"].state_dict()
    assert not any("damping" in name for name in plain)
    starts = []
    for damping in ("diagonal", "full"):
        weights = models[damping].state_dict()
        assert all(torch.equal(weights[name], value) for name, value in plain.items())
        (more,) = weights.keys() - plain.keys()
        assert more.startswith("processor.damping.")
        starts.append(models[damping].processor.damping().detach())
    rates = starts[0].diagonal()
    assert float(rates.min()) == pytest.approx(1e-3, rel=2e-3)
    assert float(rates.max()) == pytest.approx(1e-2, rel=2e-2)
    torch.testing.assert_close(*starts)


def test_roles_of_its_weights():
    """G is a hidden matrix, and decays to no damping; a is neither matrix nor decays, since a = 0 is a fast rate."""
    full, diagonal = (small(processor=SIZES | {"damping": damping}).build() for damping in ("full", "diagonal"))
    assert full.matrices()["processor.damping.factor"] == Matrices()
    assert "processor.damping.raw_rates" not in diagonal.matrices()
    assert decays(full)["processor.damping.factor"]
    assert not decays(diagonal)["processor.damping.raw_rates"]


def test_second_derivatives_and_transforms_see_it():
    processor = processor_of("full", channels=4)
    p = random_cloud(3, 2)
    z = (random_cloud(3, 4) - 0.5)[None].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda z: processor.at(p).trajectory(z, [1.0], "euler", 1), z)
    together = torch.func.vmap(lambda z: processor.at(p).trajectory(z[None], [1.0, 2.0], "heun", 1)[0])
    z = random_cloud(6, 4).view(2, 3, 4)
    assert relative_error(together(z), processor.at(p).trajectory(z, [1.0, 2.0], "heun", 1)) < 1e-12
