"""AROMA: the published counts, the model written out, invariances, its sampler and its two losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError, InputError
from calm_pde.models import MODELS
from calm_pde.models.aroma.model import Aroma, AromaConfig
from calm_pde.models.draws import Draws
from calm_pde.models.size import num_parameters
from calm_pde.records.inputs import Frames
from tests.clouds import random_cloud, relative_error
from tests.models.aroma import aroma_oracle as oracle

COUNTS = {
    "burgers_1d": (467_969, 1_280_136, 1_748_105),
    "navier_stokes_2d": (505_969, 1_339_536, 1_845_505),
    "compressible_3d": (513_237, 1_339_536, 1_852_773),
    "airfoil_2d": (659_764, 1_290_384, 1_950_148),
    "cylinder_2d": (659_507, 1_290_384, 1_949_891),
}
DTYPES = [torch.float64, torch.float32]


def config(**changes: Any) -> AromaConfig:
    autoencoder = {
        "num_tokens": 5,
        "latent_channels": 3,
        "width": 8,
        "heads": 2,
        "frequencies": 4,
        "band_width": 3,
        "field_width": 7,
    } | changes.pop("autoencoder", {})
    dynamics = {"width": 8, "heads": 2, "blocks": 2} | changes.pop("dynamics", {})
    sizes = {"dim": 2, "in_channels": 2, "out_channels": 2, "autoencoder": autoencoder, "dynamics": dynamics}
    return AromaConfig.model_validate(sizes | changes)


def perturbed(config: AromaConfig, dtype: torch.dtype = torch.float64) -> Aroma:
    """What starts at zero moved away from it."""
    model, generator = config.build(seed=3), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.to(dtype)


def cloud(count: int = 20, dim: int = 2, batch: int = 2, dtype: torch.dtype = torch.float64):
    points = torch.stack([random_cloud(count, dim, seed) for seed in range(batch)]).to(dtype)
    values = torch.randn(batch, count, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    return values, points


def draws(count: int, epoch: int = 0) -> Draws:
    return Draws([[0, epoch, sample] for sample in range(count)])


@pytest.mark.parametrize("name", COUNTS)
def test_published_counts(name):
    model = MODELS["aroma"].preset(name).build()
    parts = [sum(weight.numel() for weight in part.parameters()) for part in (model.autoencoder, model.dynamics)]
    assert (*parts, num_parameters(model)) == COUNTS[name]


@pytest.mark.parametrize("name", COUNTS)
def test_small_twins(name):
    assert num_parameters(MODELS["aroma"].preset(f"{name}_small").build()) <= 500_000


def test_tied_blocks_share_storage():
    model = config(autoencoder={"depth": 4}).build()
    seen = []
    block = model.autoencoder.decoder.block
    block.register_forward_hook(lambda module, *_: seen.append(module.to_qkv.weight.data_ptr()))
    values, points = cloud(dtype=torch.float32)
    model(values, points, 1)
    assert len(seen) == 4
    assert len(set(seen)) == 1
    assert num_parameters(model) == num_parameters(config(autoencoder={"depth": 1}).build())
    storages = [value.untyped_storage().data_ptr() for value in model.state_dict().values()]
    assert len(set(storages)) == len(storages)  # each under one name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("geometry", [False, True])
@pytest.mark.parametrize("own_meshes", [False, True])
def test_the_whole_model_equals_the_oracle(dtype, geometry, own_meshes):
    chosen = config(
        autoencoder={"geometry": geometry, "depth": 2, "highest_octave": 2.0, "bands": ((0.0, 1.0), (1.0, 2.0))},
        dynamics={"minimum_noise": 1e-2, "residual": 4.0 if geometry else None, "noise_seed": 7},
    )
    model = perturbed(chosen, dtype)
    values, points = cloud(dtype=dtype)
    points = points if own_meshes else points[0]
    mask = torch.arange(20) < torch.tensor([[20], [13]]) if own_meshes else None
    queries = random_cloud(6, 2, seed=9).to(dtype)
    u = model(values, points, 2, queries, mask)
    assert u.shape == (2, 2, 6, 2)
    w = {name: value.double().numpy() for name, value in model.state_dict().items()}
    generator = torch.Generator().manual_seed(7)
    noises = [torch.randn(4, 5, 3, generator=generator, dtype=torch.float64).numpy() for _ in range(2)]
    for sample in range(2):
        real = slice(None) if mask is None else mask[sample].numpy()
        where = (points[sample] if own_meshes else points).double().numpy()[real]
        state = values[sample].double().numpy()[real]
        z = oracle.encode(oracle.part(w, "autoencoder.encoder."), state, where, heads=2, count=4, high=2.0)
        for step, noise in enumerate(noises):
            z = oracle.following(
                oracle.part(w, "dynamics.network."), z, noise, minimum=1e-2, heads=2, residual=4.0 if geometry else None
            )
            wanted = oracle.decode(
                oracle.part(w, "autoencoder.decoder."),
                z,
                queries.double().numpy(),
                heads=2,
                count=4,
                depth=2,
                bands=((0.0, 1.0), (1.0, 2.0)),
            )
            error = relative_error(u[sample, step], torch.from_numpy(wanted))
            assert error < (1e-11 if dtype == torch.float64 else 2e-4), error


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("geometry", [False, True])
def test_order_padding_batch_mates_and_queries_change_nothing(dtype, geometry):
    model = perturbed(config(autoencoder={"geometry": geometry}), dtype)
    tolerance = {"rtol": 0, "atol": 1e-11 if dtype == torch.float64 else 2e-4}
    values, points = cloud(dtype=dtype)
    with torch.no_grad():
        u = model(values, points, 3)
        order = torch.randperm(20)
        torch.testing.assert_close(model(values[:, order], points[:, order], 3), u[:, :, order], **tolerance)
        torch.testing.assert_close(model(values[1:], points[1:], 3), u[1:], **tolerance)
        queries = random_cloud(9, 2, seed=4).to(dtype)
        asked = model(values, points, 3, queries)
        torch.testing.assert_close(model(values, points, 3, queries[[7, 2]]), asked[:, :, [7, 2]], **tolerance)
        torch.testing.assert_close(model(values, points, 3, points), u, **tolerance)
        torch.testing.assert_close(model(values, points, 2), u[:, :2], **tolerance)
        wide = torch.full((2, 26, 2), torch.nan, dtype=dtype)
        padded_points, padded_values, mask = wide.clone(), wide.clone(), torch.arange(26) < 20
        padded_points[:, :20], padded_values[:, :20] = points, values
        padded = model(padded_values, padded_points, 3, mask=mask.expand(2, -1))
        torch.testing.assert_close(padded[:, :, :20], u, **tolerance)
        assert not padded[:, :, 20:].any()
        shared = model(values, points[0], 3, mask=torch.ones(2, 20, dtype=torch.bool))
        torch.testing.assert_close(shared, model(values, points[0], 3), **tolerance)


def test_noise_comes_from_the_config_alone():
    values, points = cloud()
    found = []
    for seed in (0, 0, 1):
        model = perturbed(config(dynamics={"noise_seed": seed}))
        torch.manual_seed(len(found))
        found.append(model(values, points, 2))
    assert torch.equal(found[0], found[1])
    assert relative_error(found[2], found[0]) > 1e-3
    same = model(values[:1].expand(3, -1, -1), points[0], 2)
    assert relative_error(same[1:], same[:1].expand(2, -1, -1, -1)) < 1e-12  # samples share their noise


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_each_stage_has_a_gradient_to_every_parameter_of_its_part(dim):
    model = perturbed(config(dim=dim, autoencoder={"geometry": True, "dropped": (0.5,)}))
    values, points = cloud(dim=dim)
    frames = Frames(torch.stack([values, 2 * values], dim=1), points)
    for stage in ("autoencoder", "dynamics"):
        model.zero_grad(set_to_none=True)
        model.stage_losses(stage, frames, draws(2)).sum().backward()
        mine = {id(weight) for weight in model.part(stage).parameters()}
        for name, weight in model.named_parameters():
            if not name.endswith("norm_key.bias"):  # a shift of all keys moves every logit of a query alike
                touched = weight.grad is not None and bool(weight.grad.abs().max() > 1e-12)
                assert touched == (id(weight) in mine), name


def test_the_autoencoders_loss_is_the_formula():
    model = perturbed(config(autoencoder={"divergence_weight": 0.3}))
    values, points = cloud()
    mean, log_variance = model.autoencoder.encoder(values, points)
    spread = (0.5 * log_variance).exp()
    noise = draws(2).normal(5, 3).double()
    found = model.decode((mean + spread * noise)[:, None], points)[:, 0]
    error = ((found - values).square().sum(dim=1) / values.square().sum(dim=1)).sqrt().mean(dim=1)
    normal = torch.distributions.Normal
    divergence = torch.distributions.kl_divergence(normal(mean, spread), normal(0.0, 1.0)).mean(dim=(1, 2))
    losses = model.stage_losses("autoencoder", Frames(values[:, None], points), draws(2))
    torch.testing.assert_close(losses, error + 0.3 * divergence, rtol=1e-10, atol=0)


def test_the_mean_square_is_over_real_points():
    model = perturbed(config(autoencoder={"loss": "mean_square", "divergence_weight": 0.0, "dropped": (0.25, 0.5)}))
    values, points = cloud()
    mask = torch.arange(20) < torch.tensor([[20], [13]])
    together = model.stage_losses("autoencoder", Frames(values[:, None], points, mask), draws(2))
    alone = model.stage_losses("autoencoder", Frames(values[1:, None, :13], points[1:, :13]), Draws([[0, 0, 1]]))
    torch.testing.assert_close(together[1:], alone, rtol=1e-10, atol=0)


def test_points_are_dropped_by_the_share_that_was_drawn():
    model = config(autoencoder={"dropped": (0.0, 0.25, 0.5, 0.75)}).build().double()
    values = torch.zeros(400, 20, 2, dtype=torch.float64)
    mask = (torch.arange(20) < 13).expand(400, -1)
    kept = model.autoencoder._kept(values, mask, draws(400))
    assert not kept[:, 13:].any()
    counts = kept.sum(dim=1)
    assert set(counts.tolist()) == {13, 10, 7, 4}  # ⌈(1 − share)·13⌉
    assert all(60 < int((counts == count).sum()) < 140 for count in (13, 10, 7, 4))
    share = kept[counts == 7, :13].double().mean(dim=0)
    assert float((share - 7 / 13).abs().max()) < 0.25


def test_the_dynamics_learns_the_velocity_of_the_tokens_to_come():
    model = perturbed(config(dynamics={"residual": 3.0}))
    z, after = torch.randn(2, 2, 5, 3, dtype=torch.float64)
    keyed = draws(2)
    levels, noise = keyed.integers(4), keyed.normal(5, 3).double()
    for sample, level in enumerate(levels.tolist()):
        kept = model.dynamics.schedule.kept[level]
        y = 3 * (after[sample] - z[sample])
        noised, wanted = kept**0.5 * y + (1 - kept) ** 0.5 * noise[sample], kept**0.5 * noise[sample] - (1 - kept) ** 0.5 * y
        said = model.dynamics.network(z[sample][None], noised[None], torch.tensor([level * 1000 / 3], dtype=torch.float64))[0]
        found = model.dynamics.losses(z, after, draws(2))[sample]
        torch.testing.assert_close(found, (said - wanted).square().mean(), rtol=1e-10, atol=0)


def test_standardized_tokens():
    model = perturbed(config(dynamics={"standardize": True}))
    values, points = cloud(batch=4)
    training = [
        Frames(values[:3, None] * torch.tensor([1.0, 2.0])[:, None, None], points[:3]),
        Frames(values[3:, None], points[3:]),
    ]
    model.prepare("autoencoder", iter(training))
    assert not model.dynamics.mean.any()
    model.prepare("dynamics", iter(training))
    tokens = [model.encode(part.values[:, time], part.points) for part in training for time in range(part.values.shape[1])]
    every = torch.cat(tokens).flatten(0, 1)
    torch.testing.assert_close(model.dynamics.mean, every.mean(dim=0))
    torch.testing.assert_close(model.dynamics.std, every.std(dim=0, correction=0))
    seen = []
    model.dynamics.network.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model(values, points, 1)
    torch.testing.assert_close(seen[0] * model.dynamics.std + model.dynamics.mean, model.encode(values, points))


@pytest.mark.parametrize(("count", "steps"), [(1, 30), (4, 140)])
def test_the_autoencoder_learns_by_heart(count, steps):
    """One frame at once; to tell four apart it must find its way through the noise on its tokens first."""
    model = AromaConfig.preset("burgers_1d_small", autoencoder={"num_tokens": 8}).build()
    points = torch.arange(64)[:, None] / 64
    values = torch.stack([torch.sin(2 * torch.pi * (points + phase / 4)) for phase in range(count)])
    optimizer = torch.optim.AdamW(model.part("autoencoder").parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model.stage_losses("autoencoder", Frames(values[:, None], points), draws(count, step)).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(1.0, abs=0.01)
    assert np.mean(losses[-3:]) < 0.5, losses


@pytest.mark.parametrize("call", [lambda m, v, p: m(v, p, 0), lambda m, v, p: m(v, p), lambda m, v, p: m.rollout(v, p, [0.5])])
def test_what_it_cannot_do_is_said(call):
    values, points = cloud()
    with pytest.raises(InputError, match=r"num_steps|whole frames"):
        call(config().build().double(), values, points)


def test_configs_that_cannot_be():
    for changes, said in (
        ({"node_types": (0, 4)}, "kinds of points"),
        ({"out_channels": 3}, "out_channels must be in_channels"),
        ({"autoencoder": {"heads": 3}}, "heads must divide"),
        ({"dynamics": {"heads": 3}}, "heads must divide"),
    ):
        with pytest.raises(ConfigError, match=said):
            config(**changes)


def test_rollout_begins_with_the_state_itself():
    model = perturbed(config())
    values, points = cloud()
    found = model.rollout(values, points, [1.0, 3.0])
    assert torch.equal(found[:, 0], values)
    torch.testing.assert_close(found[:, 1:], model(values, points, 3)[:, [0, 2]])
    assert not model.config.abilities.reconstructs
