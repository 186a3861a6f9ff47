"""The trajectory by hand against the same formula through PyTorch's own derivatives."""

from __future__ import annotations

import pytest
import torch

from calm_pde.engine import latent_steps
from calm_pde.engine.stepping import INTEGRATORS, trajectory
from calm_pde.models.calm.processor.damping import Damping
from calm_pde.models.calm.processor.processor import Positions, Processor
from tests.clouds import random_cloud, relative_error

TOKENS, CHANNELS = 5, 6


def setting(
    batch: int, damping: Damping = "none", own: bool = False, known: Positions = "absolute"
) -> tuple[Processor, torch.Tensor, torch.Tensor]:
    """ψ, a state, and positions that its samples share or that each has of its `own`."""
    generator = torch.Generator().manual_seed(0)
    sizes = {"width": 16, "heads": 4, "blocks": 2, "fourier_width": 8, "fourier_std": 1.0}
    processor = Processor(CHANNELS, 2, (True, False), **sizes, damping=damping, positions=known, generator=generator).double()
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
