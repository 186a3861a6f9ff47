"""PIT: counts, an oracle of loops, its latent mesh, what it normalizes and refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError, InputError
from calm_pde.models.pit.model import Pit, PitConfig, uniform_grid
from calm_pde.train.optimizers.adamw import decays
from tests.clouds import random_cloud, relative_error
from tests.models.pit.test_position_attention import dense_weights
from tests.oracle import gelu_all, weights_of

COUNTS = {
    "burgers_1d": 78_861,
    "navier_stokes_2d": 1_249_805,
    "compressible_3d": 923_659,
    "airfoil_2d": 1_251_088,
    "cylinder_2d": 1_252_383,
}


def tiny(**changes: Any) -> PitConfig:
    return PitConfig.model_validate(
        {
            "dim": 2,
            "in_channels": 2,
            "out_channels": 2,
            "periodic": (True, False),
            "width": 5,
            "heads": 2,
            "blocks": 2,
            "latent_mesh": (3, 2),
            "encoder_quantile": 0.3,
            "decoder_quantile": 0.5,
        }
        | changes
    )


def count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("name", PitConfig.presets)
def test_parameter_counts(name):
    config = PitConfig.preset(name)
    h, heads, blocks, c = config.width, config.heads, config.blocks, config.out_channels
    f = c + config.dim * config.coordinates + (4 if config.node_types else 0)
    kinds = 4 * len(config.node_types)
    closed = heads * f * h + 2 * h + h**2 + blocks * ((2 + heads) * h**2 + 2 * h)
    closed += heads * h**2 + h + h * c + c + heads * (blocks + 2) + kinds
    assert count(config.build()) == closed
    assert closed == COUNTS[name] if name in COUNTS else closed <= 500_000
    assert set(PitConfig.presets) == {*COUNTS, *(f"{name}_small" for name in COUNTS)}


def mlp(w: dict[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    hidden = gelu_all(x @ w[f"{name}.0.weight"].T + w[f"{name}.0.bias"])
    return hidden @ w[f"{name}.2.weight"].T + w[f"{name}.2.bias"]


def normalized(x: np.ndarray) -> np.ndarray:
    return np.stack([(column - column.mean()) / np.sqrt(((column - column.mean()) ** 2).mean() + 1e-5) for column in x.T]).T


def oracle(model: Pit, u: np.ndarray, points: torch.Tensor, queries: torch.Tensor, kinds=None, real=None) -> np.ndarray:
    """The next frame of one sample, (point, channel) -> (query, channel)."""
    w, config, periodic = weights_of(model), model.config, model.periodic
    features = [u] + ([points.numpy()] if config.coordinates else [])
    if kinds is not None:
        features.append(np.stack([w["node_types.weight"][config.node_types.index(kind)] for kind in kinds]))
    latent = model.latent.double()

    def attend(module, keys, asked, quantile, x, real=None):
        dense = dense_weights(module, keys, asked, quantile, periodic, real).numpy()
        return np.concatenate([matrix @ x for matrix in dense], axis=1)

    x = gelu_all(mlp(w, "lift", attend(model.into, points, latent, config.encoder_quantile, np.hstack(features), real)))
    x = normalized(x) if config.normalize_latent else x
    for block, attention in enumerate(model.within):
        x = gelu_all(mlp(w, f"blocks.{block}", np.hstack([x, attend(attention, latent, latent, 1.0, x)])))
    x = normalized(x) if config.normalize_latent else x
    out = mlp(w, "project", attend(model.back, latent, queries, config.decoder_quantile, x))
    return u + out if config.residual else out


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"residual": True, "coordinates": False, "node_types": (0, 4, 6)},
        {"normalize_latent": True, "encoder_quantile": 1.0, "decoder_quantile": 1.0},
        {"dim": 1, "periodic": True, "latent_mesh": (4,)},
        {"dim": 3, "periodic": False, "latent_mesh": (2, 1, 3), "heads": 1},
    ],
)
def test_equals_the_oracle(changes, dtype):
    config = tiny(**changes)
    model = config.build(seed=1).to(dtype)
    points = random_cloud(28, config.dim, seed=2).view(2, 14, config.dim).to(dtype)
    values = (random_cloud(28, 2, seed=3).view(2, 14, 2) - 0.5).to(dtype)
    queries = random_cloud(5, config.dim, seed=4).to(dtype)
    mask = torch.arange(14) < torch.tensor([[14], [9]])
    kinds = torch.tensor(config.node_types)[torch.arange(14) % 3] if config.node_types else None
    here = model(values, points, 2, mask=mask, node_type=kinds)
    there = None if config.residual else model(values, points, 2, queries, mask, kinds)
    for sample in range(2):
        real = mask[sample].nonzero().flatten().tolist()
        u, where = values[sample, real].double().numpy(), points[sample, real].double()
        codes = None if kinds is None else kinds[real].tolist()
        bar = 1e-12 if dtype == torch.float64 else 2e-5
        for step in range(2):
            if there is not None:
                elsewhere = oracle(model.double(), u, where, queries.double(), codes)
                assert relative_error(there[sample, step], torch.from_numpy(elsewhere)) < bar
            u = oracle(model.double(), u, where, where, codes)
            assert relative_error(here[sample, step, real], torch.from_numpy(u)) < bar


def test_the_latent_mesh():
    grid = uniform_grid((2, 3), (True, False))
    assert grid.tolist() == [[0, 0], [0, 0.5], [0, 1], [0.5, 0], [0.5, 0.5], [0.5, 1]]
    config = PitConfig.preset("airfoil_2d_small")
    mesh = torch.rand(400, 2) * 0.2 + 0.4
    model = config.build(mesh=mesh)
    member = (model.latent[:, None] == mesh).all(dim=-1)
    assert bool(member.any(dim=1).all())
    assert len(member.long().argmax(dim=1).unique()) == 256
    loaded = config.build()  # loading never needs a mesh
    assert not torch.equal(loaded.latent, model.latent)
    loaded.load_state_dict(model.state_dict())
    assert torch.equal(loaded.latent, model.latent)
    plain = PitConfig.preset("cylinder_2d_small")
    assert torch.equal(plain.build(mesh=mesh).latent, plain.build().latent)


def test_a_residual_model_says_that_it_answers_at_its_points():
    points = torch.rand(10, 2)
    with pytest.raises(InputError, match="queries: expected none, since this model predicts the change"):
        tiny(residual=True).build()(torch.rand(1, 10, 2), points, 1, queries=points[:3])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"latent_mesh": (9,)}, "latent_mesh needs 2 entries"),
        ({"mesh_prior": True}, "latent_mesh needs 1 entries"),
        ({"encoder_quantile": 0.0}, "encoder_quantile: "),
        ({"out_channels": 3}, "out_channels must be 2, got 3"),
        ({"head": 3}, "Did you mean 'heads'"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ConfigError) as error:
        tiny(**changes)
    assert message in str(error.value)


def test_localities_do_not_decay():
    decaying = decays(tiny().build())
    assert {name for name, decay in decaying.items() if name.endswith("locality") and decay} == set()
    assert decaying["lift.0.weight"]
    assert sum(name.endswith("locality") for name in decaying) == 4


def test_start_of_the_weights():
    model = PitConfig.preset("navier_stokes_2d").build()
    for layer in (model.lift[2], model.blocks[1][0], model.project[0]):
        assert float(layer.weight.detach().std()) == pytest.approx((2 / layer.in_features) ** 0.5, rel=0.02)
