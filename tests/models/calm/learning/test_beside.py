"""What a CALM-PDE learns beside the error of its answers, against loops over samples and frames in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import calm_pde as cp
from calm_pde.models.calm.learning.beside import STAGES, latent_errors
from calm_pde.models.draws import Draws
from calm_pde.records.inputs import Frames
from tests.clouds import random_cloud, relative_error

FRAMES = 4
KINDS = (0, 4)
UNFELT = "norm_key.bias"  # a shift of all keys moves every logit of a query alike


def built(seed: int = 0, **changes: Any) -> cp.CalmPDE:
    config = {
        "dim": 2,
        "in_channels": 2,
        "out_channels": 2,
        "periodic": (True, False),
        "encoder": {"channels": (4, 6), "num_queries": (9, 4), "receptive_field": (0.3, 0.5), "temperature": (1.0, 0.1)},
        "decoder": {"channels": (5,), "num_queries": (8,), "receptive_field": (0.5, 0.3), "temperature": (0.1, 1.0)},
        "processor": {"heads": 2, "blocks": 1, "fourier_width": 6},
        "kernel_width": 7,
        "fourier_width": 8,
    }
    return cp.CalmConfig.model_validate(config | changes).build(seed=seed).double()


def one_mesh(frames: int = FRAMES) -> Frames:
    return Frames(random_cloud(3 * frames * 20, 2, seed=3).view(3, frames, 20, 2) - 0.5, random_cloud(20, 2))


def own_meshes(frames: int = FRAMES) -> Frames:
    """Two samples, each on its own points with its own kinds of them; the second one padded with what is no number."""
    mask = torch.arange(20) < torch.tensor([[20], [13]])
    values = random_cloud(2 * frames * 20, 2, seed=3).view(2, frames, 20, 2) - 0.5
    points = torch.stack([random_cloud(20, 2, seed) for seed in (1, 2)])
    values = values.masked_fill(~mask[:, None, :, None], float("nan"))
    kinds = torch.tensor(KINDS)[torch.arange(40).view(2, 20) % 3 // 2]
    return Frames(values, points.masked_fill(~mask[..., None], float("nan")), mask, kinds)


MESHES = pytest.mark.parametrize(("make", "kinds"), [(one_mesh, ()), (own_meshes, KINDS)], ids=["one mesh", "own meshes"])


def alone(frames: Frames, place: int) -> tuple[Frames, dict[str, Any]]:
    """One sample without what is masked, and what encode is told of it."""
    values, points, mask, kinds = frames.values, frames.points, frames.mask, frames.node_type
    real = slice(None) if mask is None else mask[place]
    points = points[place][real] if points.ndim == 3 else points
    return Frames(values[place : place + 1, :, real], points), {"node_type": None if kinds is None else kinds[place][real]}


def by_hand(model: cp.CalmPDE, frames: Frames, times: list[float]) -> torch.Tensor:
    """Mean over frames t ≥ 1 of ‖z_t − e(u_t)‖/‖e(u_t)‖, each state encoded for itself."""
    found = []
    for place in range(len(frames.values)):
        mine, told = alone(frames, place)
        encoded = [model.encode(values, mine.points, **told) for values in mine.values.unbind(dim=1)]
        (first, p), *later = encoded
        stepped = model.advance(first, p, times=times)[0, 1:]
        ratios = [(z - true[0]).norm() / true[0].norm() for z, (true, _) in zip(stepped, later, strict=True)]
        found.append(sum(ratios) / len(ratios))
    return torch.stack(found)


def gradients(model: cp.CalmPDE, losses: torch.Tensor) -> dict[str, torch.Tensor | None]:
    model.zero_grad(set_to_none=True)
    losses.sum().backward()
    return {name: weight.grad for name, weight in model.named_parameters()}


@MESHES
@pytest.mark.parametrize("times", [[1.0, 2.0, 3.0], [0.5, 1.0, 2.25]], ids=["frames", "any times"])
def test_consistency_is_the_loop_written_out(make, kinds, times):
    """Its value, and its gradient through the steps and the encodings of all frames; the trajectory is the rollout."""
    frames = make()
    model = built(consistency=0.3, node_types=kinds)
    answer = model.training_answer(frames, times)
    wanted = 0.3 * by_hand(model, frames, times)
    torch.testing.assert_close(answer.added, wanted, rtol=1e-12, atol=0)
    values, points, mask, node_type = frames.values, frames.points, frames.mask, frames.node_type
    rolled = model.rollout(values[:, 0], points, times, mask, node_type)
    assert relative_error(answer.predicted, rolled) < 1e-12
    found, expected = gradients(model, answer.added), gradients(model, wanted)
    for name, grad in expected.items():
        torch.testing.assert_close(found[name], grad, rtol=1e-9, atol=1e-12, msg=lambda said, name=name: f"{name}: {said}")
    felt = [name for name, grad in found.items() if grad is not None and float(grad.abs().max()) > 1e-9]
    assert {name.split(".")[0] for name in felt} == {"encoder", "processor", *(["node_types"] if kinds else [])}


@MESHES
def test_a_still_processor_agrees_with_what_stands_still(make, kinds):
    """With ψ = 0 the tokens stay: nothing is added for a trajectory that does not move, and something for one that does."""
    model, moving = built(consistency=1.0, node_types=kinds), make()
    for weight in model.processor.to_out.parameters():
        weight.data.zero_()
    still = replace(moving, values=moving.values[:, :1].expand_as(moving.values))
    with torch.no_grad():
        assert float(model.training_answer(still, [1.0, 2.0, 3.0]).added.max()) < 1e-12
        assert float(model.training_answer(moving, [1.0, 2.0, 3.0]).added.min()) > 1e-3


def test_small_tokens_are_clamped_as_in_the_loss_of_fields():
    z = torch.full((1, 2, 4, 25), 0.1, dtype=torch.float64)  # ‖z‖ = 1
    assert float(latent_errors(z, torch.zeros_like(z))) == pytest.approx(1e-5**-0.5, rel=1e-12)
    assert float(latent_errors(z, 2 * z)) == pytest.approx(0.5, rel=1e-12)
    assert float(latent_errors(z, torch.cat([9 * z[:, :1], 4 * z[:, 1:]], dim=1))) == pytest.approx(0.75, rel=1e-12)


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_a_window_of_one_frame_adds_nothing_and_neither_does_no_weight(weight):
    model, frames = built(consistency=weight), one_mesh()
    for times in ([], [1.0, 2.0, 3.0]):
        answer = model.training_answer(replace(frames, values=frames.values[:, : 1 + len(times)]), times)
        if weight and times:
            assert float(answer.added.detach().min()) > 0
        else:
            assert answer.added == 0.0
            assert torch.equal(answer.predicted, model.rollout(frames.values[:, 0], frames.points, times))


@MESHES
def test_the_losses_of_stages_are_loops_written_out(make, kinds):
    frames = make()
    model = built(staged=True, node_types=kinds)
    draws = Draws([[0], [1], [2]][: len(frames.values)])
    wanted = []
    for place in range(len(frames.values)):
        mine, told = alone(frames, place)
        z, p = model.encode(mine.values[:, 0], mine.points, **told)
        truth = mine.values[0, 0]
        wrong = model.decode(z[:, None], p, mine.points)[0, 0] - truth
        wanted.append((wrong.norm(dim=0) / truth.norm(dim=0)).mean())
    single = replace(frames, values=frames.values[:, :1])
    torch.testing.assert_close(model.stage_losses("autoencoder", single, draws), torch.stack(wanted), rtol=1e-12, atol=0)
    found = model.stage_losses("dynamics", frames, draws)
    torch.testing.assert_close(found, by_hand(model, frames, [1.0, 2.0, 3.0]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("frozen", [False, True], ids=["free", "frozen"])
def test_each_stage_has_a_gradient_to_every_parameter_of_its_part(frozen):
    """And to no other, also where nothing is frozen."""
    model = built(staged=True, node_types=KINDS)
    for stage in STAGES:
        if stage.frames is None:
            continue
        model.requires_grad_(not frozen)
        mine = {id(weight) for weight in model.part(stage.name).requires_grad_(True).parameters()}
        found = gradients(model, model.stage_losses(stage.name, own_meshes(stage.frames), Draws([[0], [1]])))
        felt = {name for name, grad in found.items() if grad is not None and float(grad.abs().max()) > 1e-9}
        wanted = {name for name, weight in model.named_parameters() if id(weight) in mine and not name.endswith(UNFELT)}
        assert felt == wanted, stage.name
        assert {name.startswith("processor.") for name in felt} == {stage.name == "dynamics"}
    assert model.part("whole") is model


def test_a_frozen_encoder_drops_nothing():
    frames, draws = one_mesh(), Draws([[0], [1], [2]])
    model, plain = built(staged=True, dropout=0.4).train(), built(staged=True)
    torch.testing.assert_close(model.stage_losses("dynamics", frames, draws), plain.stage_losses("dynamics", frames, draws))
    assert model.encoder[0].training
    single = replace(frames, values=frames.values[:, :1])
    assert not torch.allclose(
        model.stage_losses("autoencoder", single, draws), plain.stage_losses("autoencoder", single, draws)
    )
