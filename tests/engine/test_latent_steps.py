"""The trajectory by hand against the same formula through PyTorch's own derivatives."""

from __future__ import annotations

import pytest
import torch

from calm_pde.engine import latent_steps
from calm_pde.engine.plain import Modulation
from calm_pde.engine.stepping import INTEGRATORS, trajectory, walk
from calm_pde.models.calm.processor.damping import Damping
from calm_pde.models.calm.processor.modulator import Modulator
from calm_pde.models.calm.processor.processor import Positions, Processor
from calm_pde.models.conditions import Known
from calm_pde.records.signals import Signals
from tests.clouds import random_cloud, relative_error

TOKENS, CHANNELS = 5, 6


def setting(
    batch: int, damping: Damping = "none", own: bool = False, known: Positions = "absolute", conditions: int = 0
) -> tuple[Processor, torch.Tensor, torch.Tensor]:
    """ψ, a state, and positions that its samples share or that each has of its `own`."""
    generator = torch.Generator().manual_seed(0)
    sizes = {"width": 16, "heads": 4, "blocks": 2, "fourier_width": 8, "fourier_std": 1.0}
    modulator = Modulator(conditions, 2, 16, seed=0) if conditions else None
    sizes |= {"damping": damping, "positions": known, "modulator": modulator}
    processor = Processor(CHANNELS, 2, (True, False), **sizes, generator=generator).double()
    for parameter in processor.parameters():  # scales that are not 1, shifts that are not 0
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    z = random_cloud(batch * TOKENS, CHANNELS).view(batch, TOKENS, CHANNELS) - 0.5
    positions = random_cloud(batch * TOKENS, 2, seed=1).view(batch, TOKENS, 2)
    return processor, z.requires_grad_(), (positions if own else positions[0]).clone().requires_grad_()


@pytest.mark.parametrize(
    ("damping", "known"), [("none", "absolute"), ("diagonal", "absolute"), ("none", "relative"), ("full", "both")]
)
@pytest.mark.parametrize("together", [1, 12, 2048], ids=["each alone", "a few", "all"])
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own positions"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    ("integrator", "substeps", "times"),
    [
        ("euler", 1, [1.0, 2.0, 3.0, 4.0, 5.0]),
        ("euler", 2, [0.25, 1.0, 1.75]),
        ("heun", 1, [1.0, 1.5, 3.0]),
        ("rk4", 1, [0.5, 2.0]),
    ],
    ids=str,
)
def test_states_and_gradients_equal_the_formula(integrator, substeps, times, batch, own, known, together, damping, monkeypatch):
    """Every weight, the start and the positions; side steps, several stages, and gradients in several portions."""
    monkeypatch.setattr(latent_steps, "_TOGETHER", together)
    processor, z, positions = setting(batch, damping, own, known)
    inputs = [z, positions, *processor.parameters()]
    results = []
    for states in (
        processor.at(positions).trajectory(z, times, integrator, substeps),
        trajectory(processor.at(positions), z, times, integrator, substeps),
    ):
        assert states.shape == (batch, 1 + len(times), TOKENS, CHANNELS)
        loss = (states * torch.linspace(1, 2, states.numel(), dtype=states.dtype).view_as(states)).sum()
        results.append([states, *torch.autograd.grad(loss, inputs, retain_graph=True), *torch.autograd.grad(loss, inputs)])
    largest = max(float(wanted.detach().abs().max()) for wanted in results[1])
    for found, wanted in zip(*results, strict=True):
        own = float(wanted.detach().abs().max())
        assert float((found - wanted).detach().abs().max()) < 1e-10 * own + 1e-13 * largest  # keys' shifts are all rounding


def told(batch: int, parameters: int = 2, signals: int = 1) -> tuple[Known, list[torch.Tensor]]:
    """Conditions, with knots between the steps, and what there is to learn of them."""
    inputs = []
    if parameters:
        inputs.append(random_cloud(batch, parameters, seed=2).requires_grad_())
    times = torch.tensor([[0.0, 0.6, 2.3, 5.0], [0.0, 1.0, 2.0, 6.0], [-1.0, 0.9, 1.1, 9.0]], dtype=torch.float64)[:batch]
    if signals:
        inputs.append(random_cloud(batch * 4, signals, seed=3).view(batch, 4, signals).requires_grad_())
    return Known(inputs[0] if parameters else None, Signals(times, inputs[-1]) if signals else None), inputs


@pytest.mark.parametrize(("damping", "near"), [("none", "absolute"), ("full", "both")])
@pytest.mark.parametrize("together", [12, 2048], ids=["a few", "all"])
@pytest.mark.parametrize(("parameters", "signals"), [(2, 0), (0, 1), (2, 2)], ids=["parameters", "signals", "both"])
@pytest.mark.parametrize(
    ("integrator", "substeps", "times"), [("euler", 2, [0.25, 1.0, 1.75]), ("heun", 1, [1.0, 1.5, 3.0]), ("rk4", 1, [0.5, 2.0])]
)
def test_states_and_gradients_under_conditions_equal_the_formula(
    integrator, substeps, times, parameters, signals, together, damping, near, monkeypatch
):
    """By parameters, the values of signals, every weight, the start and the positions; without gradients the same states."""
    monkeypatch.setattr(latent_steps, "_TOGETHER", together)
    processor, z, positions = setting(3, damping, near == "both", near, parameters + 2 * signals)
    known, learned = told(3, parameters, signals)
    inputs, results = [z, positions, *learned, *processor.parameters()], []
    dynamics = processor.at(positions).under(known)
    for states in (dynamics.trajectory(z, times, integrator, substeps), trajectory(dynamics, z, times, integrator, substeps)):
        loss = (states * torch.linspace(1, 2, states.numel(), dtype=states.dtype).view_as(states)).sum()
        results.append([states, *torch.autograd.grad(loss, inputs, retain_graph=True)])
    largest = max(float(wanted.detach().abs().max()) for wanted in results[1])
    for found, wanted in zip(*results, strict=True):
        own = float(wanted.detach().abs().max())
        assert float((found - wanted).detach().abs().max()) < 1e-10 * own + 1e-13 * largest
    assert relative_error(results[0][0], processor.at(positions).trajectory(z, times, integrator, substeps)) > 1e-3
    with torch.no_grad():
        assert relative_error(dynamics.trajectory(z, times, integrator, substeps), results[0][0]) < 1e-13


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_gradients_of_what_conditions_change_equal_finite_differences(integrator):
    """By gains, scales and shifts at each moment, and by the start; a side step in the middle; and once more through these."""
    processor, z, positions = setting(2)
    weights, way = processor.at(positions.detach()).weights, walk([0.4, 1.0, 1.3], 1)
    moments = sorted(set(way.moments(INTEGRATORS[integrator])))
    table = 0.3 * random_cloud(len(moments) * 2 * 2 * 2 * 3, 16, seed=4).view(len(moments), 2, 2, 2, 3, 16) - 0.1
    places = {moment: place for place, moment in enumerate(moments)}

    def states(z: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return latent_steps.latent_states(weights, 4, Modulation(table, places), z, way, INTEGRATORS[integrator])

    inputs = (z, table.requires_grad_())
    assert torch.autograd.gradcheck(states, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(states, inputs, fast_mode=True)


def test_samples_step_under_their_own_conditions():
    """Each as it does alone, whatever the others' knots are."""
    processor, z, positions = setting(3, conditions=4)
    known, _ = told(3, 2, 1)
    together = processor.at(positions).under(known).trajectory(z, [1.0, 2.5], "rk4", 1)
    for sample in range(3):
        some = slice(sample, sample + 1)
        alone = Known(known.parameters[some], Signals(known.course.times[some], known.course.values[some]))
        found = processor.at(positions).under(alone).trajectory(z[some], [1.0, 2.5], "rk4", 1)
        assert relative_error(together[some], found) < 1e-13


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("damping", ["diagonal", "full"])
def test_damped_gradients_equal_finite_differences(damping, integrator):
    """By the start, and by a or G through A."""
    processor, z, positions = setting(1, damping)
    positions, (name,) = positions.detach(), (name for name, _ in processor.named_parameters() if "damping" in name)

    class States(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.processor = processor

        def forward(self, z: torch.Tensor) -> torch.Tensor:
            return self.processor.at(positions).trajectory(z, [0.1, 0.25], integrator, 4)

    def states(z: torch.Tensor, damped: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(States(), {f"processor.{name}": damped}, (z,))

    assert torch.autograd.gradcheck(states, [z, processor.get_parameter(name).detach().clone().requires_grad_()])


def test_weights_without_damping_are_those_they_were():
    """So many tensors as before, in their order; and with it one more, at the end."""
    plain, damped = (setting(1, damping)[0].at(random_cloud(TOKENS, 2)).weights for damping in ("none", "full"))
    assert plain.damping is None
    assert len(plain.flat()) == 5 + 2 * 12
    assert damped.flat()[-1] is damped.damping
    for weights in (plain, damped):
        again = type(weights).grouped(weights.flat())
        assert all(a is b for a, b in zip(again.flat(), weights.flat(), strict=True))
        assert len(again.blocks) == 2


@pytest.mark.parametrize("own", [False, True], ids=["shared", "own positions"])
@pytest.mark.parametrize(("damping", "known"), [("none", "absolute"), ("diagonal", "relative"), ("full", "both")])
@pytest.mark.parametrize("batch", [1, 3])
def test_without_gradients_the_states_are_the_same(batch, damping, own, known):
    processor, z, positions = setting(batch, damping, own, known)
    dynamics = processor.at(positions)
    with torch.no_grad():
        found = dynamics.trajectory(z, [1.0, 1.5, 4.0], "heun", 1)
    assert relative_error(found, dynamics.trajectory(z, [1.0, 1.5, 4.0], "heun", 1)) < 1e-13
    assert torch.equal(dynamics.trajectory(z, [], "euler", 1), z[:, None])


def test_a_backward_inside_autocast_is_the_same():
    processor, z, positions = setting(2)
    processor, z, positions = processor.float(), z.detach().float().requires_grad_(), positions.detach().float()
    states = processor.at(positions).trajectory(z, [1.0, 2.0], "euler", 1)
    (wanted,) = torch.autograd.grad(states.sum(), z, retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (found,) = torch.autograd.grad(states.sum(), z)
    assert torch.equal(found, wanted)


def test_samples_step_at_their_own_positions():
    """Each as it does alone at its positions."""
    processor, z, positions = setting(3, own=True)
    together = processor.at(positions).trajectory(z, [1.0, 2.5], "heun", 1)
    for sample in range(3):
        alone = processor.at(positions[sample]).trajectory(z[sample : sample + 1], [1.0, 2.5], "heun", 1)
        assert relative_error(together[sample : sample + 1], alone) < 1e-13
