"""ONO: counts, an oracle of loops, orthonormal functions, the covariance that is kept, a cost that is linear in the points."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError
from calm_pde.models.ono.curve import walk
from calm_pde.models.ono.model import OnoConfig
from calm_pde.models.ono.nystrom import pseudoinverse
from calm_pde.models.ono.orthonormal import Orthonormal
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train import loop
from tests.clouds import random_cloud, relative_error
from tests.models.point_oracle import features_of, linear, mlp, moved, norm, operations, softplus, two_samples
from tests.oracle import softmax, weights_of
from tests.train.overfit import overfitted, steady
from tests.train.runs import single_thread

COUNTS = {"steady_airfoil": 836_369, "elasticity": 1_103_937}


def tiny(**changes: Any) -> OnoConfig:
    base = {"dim": 2, "task": "steady", "in_channels": 3, "out_channels": 2, "width": 6, "heads": 3, "blocks": 2}
    return OnoConfig.model_validate(base | {"functions": 3, "landmarks": 4} | changes)


def closed_form(config: OnoConfig) -> int:
    c, inner, given, k = (
        config.width,
        config.expansion * config.width,
        config.in_channels + config.known_channels,
        config.functions,
    )
    attention = 2 * c + 3 * c * c + 33 * config.heads + c * c + c
    block = attention + 2 * c + 2 * c * inner + inner + c + (c + 1) * k + k + 2 * c
    between = (config.blocks - 1) * (2 * c * inner + inner + c) + config.out_channels * (c + 1)
    maps = 2 * c * given + 2 * c + 2 * c * 2 * c + 2 * c
    return maps + config.blocks * block + between + 4 * len(config.node_types)


@pytest.mark.parametrize("name", OnoConfig.presets)
def test_parameter_counts(name):
    config = OnoConfig.preset(name)
    counted = sum(parameter.numel() for parameter in config.build().parameters())
    assert counted == closed_form(config)
    assert counted == COUNTS[name] if name in COUNTS else counted <= (500_000 if name.endswith("_small") else 900_000)


@pytest.mark.parametrize(("name", "inputs", "published"), [("steady_airfoil", 4, 836_881), ("elasticity", 3, 1_104_193)])
def test_published_inputs_count_as_published(name, inputs, published):
    """With the reference grid beside the coordinates, or with a channel that counts the points."""
    model = OnoConfig.preset(name, in_channels=inputs).build()
    assert sum(parameter.numel() for parameter in model.parameters()) == published


def oracle(model, features: np.ndarray) -> np.ndarray:
    """f of one sample in the order of its walk, with the covariance that is kept."""
    w, config = weights_of(model), model.config
    size, count = config.width // config.heads, len(features)
    stretches = min(config.landmarks, count)
    members = [[n for n in range(count) if n * stretches // count == m] for m in range(stretches)]
    start = np.array([mlp(w, "network.embed", row) for row in features])
    x, f = start[:, : config.width], start[:, config.width :]
    for b in range(config.blocks):
        name = f"network.blocks.{b}"
        attention, mixed = f"{name}.points.attention", np.zeros_like(x)
        qkv = np.array([linear(w, f"{attention}.to_qkv", norm(w, f"{attention}.norm", row)) for row in x])
        for h in range(config.heads):
            q, k, v = (qkv[:, i * config.width + h * size : i * config.width + (h + 1) * size] for i in range(3))
            q = q / math.sqrt(size)
            ql, kl = (np.array([sum(rows[n] for n in stretch) / len(stretch) for stretch in members]) for rows in (q, k))
            near, core, far = (
                np.array([softmax([float(a @ b) for b in keys]) for a in asks]) for asks, keys in ((q, kl), (ql, kl), (ql, k))
            )
            z = core.T / (np.abs(core).sum(axis=1).max() * np.abs(core).sum(axis=0).max())
            one = np.eye(stretches)
            for _ in range(6):
                z = 0.25 * z @ (13 * one - core @ z @ (15 * one - core @ z @ (7 * one - core @ z)))
            mixed[:, h * size : (h + 1) * size] = near @ z @ far @ v
            taps = w[f"{attention}.taps"][h, 0, :, 0]
            for n in range(count):
                for t in range(33):
                    if 0 <= n + t - 16 < count:
                        mixed[n, h * size : (h + 1) * size] += taps[t] * v[n + t - 16]
        x = np.array([row + linear(w, f"{attention}.to_out", mixed[n]) for n, row in enumerate(x)])
        x = np.array([row + mlp(w, f"{name}.points.mlp", norm(w, f"{name}.points.norm", row)) for row in x])
        raw = np.array([linear(w, f"{name}.functions.to_functions", row) for row in x])
        psi = raw @ np.linalg.inv(np.linalg.cholesky(w[f"{name}.functions.covariance"])).T
        projected = psi.T @ f / (count if config.projection == "mean" else 1)
        f = f + (psi * softplus(w[f"{name}.integral.strength"])) @ projected
        last = linear if b == config.blocks - 1 else mlp
        f = np.array([last(w, f"{name}.out", norm(w, f"{name}.norm", row)) for row in f])
    return f


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dim": 1, "node_types": (0, 4, 6), "expansion": 2, "projection": "sum", "landmarks": 20},
        {"dim": 3, "coordinates": False, "parameters": 2, "landmarks": 8},
    ],
)
def test_equals_the_oracle(changes):
    """With as many landmarks as stretches, more than there are points, and more than the second sample has."""
    model = moved(tiny(**changes).build(seed=1)).double()
    for block in model.network.blocks:
        away = random_cloud(3, 3, seed=6)
        block.functions.covariance.copy_(away @ away.mT + 0.1 * torch.eye(3))
    call = two_samples(model)
    found = model.eval()(**call)
    for place in range(2):
        features, points, real = features_of(model, call, place)
        order = walk(torch.from_numpy(points)[None], None).order[0].numpy()
        wanted = np.empty((len(real), 2))
        wanted[order] = oracle(model, features[order])
        assert relative_error(found[place, 0, real], torch.from_numpy(wanted)) < 1e-10


def outer(psi: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of ψ ψᵀ over the real points of a batch, one by one."""
    rows = [psi[sample, n] for sample, n in mask.nonzero().tolist()]
    return torch.stack([row[:, None] * row for row in rows]).mean(dim=0)


@pytest.mark.parametrize(("dtype", "bar"), [(torch.float64, 1e-10), (torch.float32, 1e-3)])
def test_functions_are_orthonormal_over_a_batch_in_training(dtype, bar):
    """Over its real points alone; functions that hardly differ are told apart."""
    module = moved(Orthonormal(8, 4, torch.Generator().manual_seed(0)), by=1.0).to(dtype)
    with torch.no_grad():
        module.to_functions.weight[1] = module.to_functions.weight[0] + 1e-2 * module.to_functions.weight[1]
    x, mask = random_cloud(60, 8).view(3, 20, 8).to(dtype), torch.arange(20) < torch.tensor([[20], [13], [1]])
    psi = module(x.masked_fill(~mask[..., None], 7.0), mask)
    assert relative_error(outer(psi, mask), torch.eye(4)) < bar
    assert bool((psi[~mask] == 0).all())
    assert relative_error(psi.mT[0] @ psi[0] / 20, torch.eye(4)) > 1e-3  # not of a sample alone


def test_the_covariance_is_kept_as_a_moving_average_and_used_without_training():
    module = moved(Orthonormal(8, 4, torch.Generator().manual_seed(0))).double()
    batches = [random_cloud(40, 8, seed=seed).view(2, 20, 8) for seed in range(3)]
    wanted = np.eye(4)
    for x in batches:
        module(x, None)
        raw = module.to_functions(x).flatten(0, 1).detach().numpy()
        wanted = 0.9 * wanted + 0.1 * raw.T @ raw / 40
    assert relative_error(module.covariance, torch.from_numpy(wanted)) < 1e-12
    kept, found = module.covariance.clone(), module.eval()(batches[0], None)
    factor = np.linalg.cholesky(wanted)
    assert relative_error(found, module.to_functions(batches[0]) @ torch.from_numpy(np.linalg.inv(factor).T)) < 1e-9
    assert torch.equal(module.covariance, kept)
    assert "covariance" in module.state_dict()


def test_functions_that_are_alike_or_too_few_points_stay_finite():
    module = Orthonormal(8, 4, torch.Generator().manual_seed(0))
    with torch.no_grad():
        module.to_functions.weight[1:] = module.to_functions.weight[0]
    for x in (torch.rand(1, 20, 8), torch.rand(1, 2, 8), torch.zeros(1, 5, 8)):
        x.requires_grad_()
        psi = module(x, None)
        psi.sum().backward()
        assert bool(psi.isfinite().all())
        assert x.grad is not None
        assert bool(x.grad.isfinite().all())


def test_batch_mates_count_in_training_alone_and_that_is_declared():
    model = moved(tiny().build(seed=1)).double()
    call = two_samples(model)
    alone = {name: value[:1] for name, value in call.items()}
    assert model.config.abilities.batch_statistics
    assert relative_error(model(**call)[:1], model(**alone)) > 1e-6
    assert relative_error(model.eval()(**call)[:1], model(**alone)) < 1e-12


def test_parts_of_a_batch_and_several_processes_are_refused(tmp_path: Path, monkeypatch):
    form = tiny().model_dump() | {"kind": "ono", "in_channels": 2, "out_channels": 1, "parameters": 0}
    with pytest.raises(ConfigError, match=r"train\.accumulate: ono learns by a statistic of the whole batch.*got 2"):
        overfitted(steady(), form, tmp_path, epochs=1, accumulate=2)

    again = tmp_path / "again"
    again.mkdir()

    class Two(loop.Processes):
        def __init__(self) -> None:
            super().__init__()
            self.size = 2

    monkeypatch.setattr(loop, "Processes", Two)
    with pytest.raises(ConfigError, match="model: ono learns by a statistic of the whole batch, which 2 processes"):
        overfitted(steady(), form, again, epochs=1)


def test_a_trained_surrogate_keeps_its_covariances(tmp_path: Path):
    form = tiny().model_dump() | {"kind": "ono", "in_channels": 2, "out_channels": 1}
    with single_thread():
        overfitted(steady(), form, tmp_path, epochs=5)
    model = Surrogate.load(tmp_path / "run").model
    kept = [value for name, value in model.state_dict().items() if name.endswith("covariance")]
    assert len(kept) == 2
    assert all(relative_error(value, torch.eye(3)) > 0.1 for value in kept)


def test_the_pseudoinverse_of_a_softmax():
    """Six iterations are enough where landmarks differ; each matrix is scaled by its own norms."""
    logits = 4 * torch.eye(6).double() + random_cloud(12, 6).view(2, 6, 6)
    a = logits.softmax(dim=-1)
    assert relative_error(pseudoinverse(a), torch.linalg.pinv(a)) < 1e-6
    assert torch.equal(pseudoinverse(a)[1], pseudoinverse(a[1:])[0])


@pytest.mark.parametrize("projection", ["mean", "sum"])
def test_answers_of_other_resolutions(projection):
    """Every point twice: with the mean over points, and one landmark, nothing changes but what the taps see."""
    model = moved(tiny(projection=projection, landmarks=1, width=8, heads=2).build(seed=1)).double().eval()
    with torch.no_grad():
        for block in model.network.blocks:
            block.points.attention.taps.zero_()
    points, values = random_cloud(12, 2), random_cloud(12, 3, seed=1)[None]
    twice = model(values.repeat(1, 2, 1), points.repeat(2, 1))[:, :, :12]
    assert (relative_error(twice, model(values, points)) < 1e-12) == (projection == "mean")


def test_cost_is_linear_in_the_points():
    """Beside what the landmarks say to one another."""
    model = tiny(width=16, heads=2).build().double().eval()
    one, two, three = (operations(model, points) for points in (100, 200, 300))
    assert three - two == two - one > 0.9 * one


def test_in_time_it_answers_the_change():
    model = moved(tiny(task="rollout", in_channels=2).build(seed=1)).double().eval()
    call = two_samples(model)
    found = model(**call, num_steps=1)
    features, points, real = features_of(model, call, 1)
    order = walk(torch.from_numpy(points)[None], None).order[0].numpy()
    wanted = np.empty((len(real), 2))
    wanted[order] = oracle(model, features[order])
    assert relative_error(found[1, 0, real], call["values"][1, real] + torch.from_numpy(wanted)) < 1e-10
