"""LNO: counts, an oracle of loops, weights that sum to 1, memory in chunks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError
from calm_pde.models.calm.memory import LiveBytes
from calm_pde.models.lno.model import LnoConfig
from tests.clouds import random_cloud, relative_error
from tests.oracle import gelu_all, layer_norm, softmax, weights_of

COUNTS = {
    "burgers_1d": 461_121,
    "navier_stokes_2d": 2_847_105,
    "compressible_3d": 1_276_805,
    "airfoil_2d": 2_848_260,
    "cylinder_2d": 2_397_267,
    "steady_airfoil": 1_292_161,
    "elasticity": 1_831_745,
}


def tiny(**changes: Any) -> LnoConfig:
    base = {"dim": 2, "in_channels": 2, "out_channels": 2, "width": 6, "modes": 4, "projector_layers": 2, "heads": 3}
    return LnoConfig.model_validate(base | {"blocks": 2} | changes)


@pytest.mark.parametrize("name", LnoConfig.presets)
def test_parameter_counts(name):
    config = LnoConfig.preset(name)
    d, n, c, s = config.width, config.projector_layers, config.out_channels, config.dim

    def mlp(a: int, o: int) -> int:
        return a * d + d + n * (d**2 + d) + d * o + o

    kinds, given = len(config.node_types), config.in_channels + s * config.coordinates
    closed = mlp(s, d) + mlp(given + (4 if kinds else 0), d) + mlp(d, c) + mlp(d, config.modes)
    closed += config.blocks * (8 * d**2 + 11 * d) + 4 * kinds
    assert sum(parameter.numel() for parameter in config.build().parameters() if parameter.requires_grad) == closed
    assert closed == COUNTS[name] if name in COUNTS else closed <= 500_000
    assert set(LnoConfig.presets) == {*COUNTS, *(f"{name}_small" for name in COUNTS)}


def mlp(w: dict[str, np.ndarray], name: str, x: np.ndarray) -> np.ndarray:
    r = gelu_all(w[f"{name}.first.weight"] @ x + w[f"{name}.first.bias"])
    depth = 0
    while f"{name}.hidden.{depth}.weight" in w:
        r = r + gelu_all(w[f"{name}.hidden.{depth}.weight"] @ r + w[f"{name}.hidden.{depth}.bias"])
        depth += 1
    return w[f"{name}.last.weight"] @ r + w[f"{name}.last.bias"]


def oracle(model, u: np.ndarray, points: np.ndarray, queries: np.ndarray, kinds=None) -> np.ndarray:
    """The next frame of one sample, (point, channel) -> (query, channel)."""
    w, config = weights_of(model), model.config
    heads, width, modes = config.heads, config.width, range(config.modes)
    size = width // heads

    def scores(p):
        return mlp(w, "attention.score", mlp(w, "attention.trunk", p))

    embedded = [[] if kinds is None else w["node_types.weight"][config.node_types.index(kind)] for kind in kinds or points]
    branch = [
        mlp(w, "branch", np.concatenate([u[i], points[i][: config.dim * config.coordinates], embedded[i]]))
        for i in range(len(points))
    ]
    logits = [scores(p) for p in points]
    z = []
    for m in modes:
        shares = softmax([float(row[m]) for row in logits])
        z.append(sum(share * row for share, row in zip(shares, branch, strict=True)))
    for b in range(config.blocks):
        v = {name.removeprefix(f"blocks.{b}."): value for name, value in w.items() if name.startswith(f"blocks.{b}.")}
        normed = [layer_norm(row, v["norm_attention.weight"], v["norm_attention.bias"]) for row in z]
        qkv = [v["to_qkv.weight"] @ row + v["to_qkv.bias"] for row in normed]
        mixed = np.zeros((config.modes, width))
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            for i in modes:
                dots = [float(qkv[i][:width][part] @ qkv[j][width : 2 * width][part]) / math.sqrt(size) for j in modes]
                for share, j in zip(softmax(dots), modes, strict=True):
                    mixed[i, part] += share * qkv[j][2 * width :][part]
        z = [z[i] + v["to_out.weight"] @ mixed[i] + v["to_out.bias"] for i in modes]
        normed = [layer_norm(row, v["norm_mlp.weight"], v["norm_mlp.bias"]) for row in z]
        hidden = [gelu_all(v["mlp.expand.weight"] @ row + v["mlp.expand.bias"]) for row in normed]
        z = [z[i] + v["mlp.reduce.weight"] @ hidden[i] + v["mlp.reduce.bias"] for i in modes]
    out = []
    for q in queries:
        shares = softmax(scores(q).tolist())
        out.append(mlp(w, "head", sum(share * row for share, row in zip(shares, z, strict=True))))
    return np.array(out)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"node_types": (0, 4, 6), "memory_budget": 3000},
        {"dim": 1, "projector_layers": 0},
        {"dim": 3},
        {"coordinates": False},
    ],
)
def test_equals_the_oracle(changes, dtype):
    config = tiny(**changes)
    model = config.build(seed=1)
    with torch.no_grad():
        for parameter in model.parameters():  # the affine maps of the norms start at 1 and 0
            parameter += 0.3 * torch.randn(parameter.shape)
    model = model.to(dtype)
    points = random_cloud(20, config.dim, seed=2).view(2, 10, config.dim).to(dtype)
    values = (random_cloud(20, 2, seed=3).view(2, 10, 2) - 0.5).to(dtype)
    queries, mask = random_cloud(5, config.dim, seed=4).to(dtype), torch.arange(10) < torch.tensor([[10], [6]])
    kinds = torch.tensor(config.node_types)[torch.arange(10) % 3] if config.node_types else None
    here = model(values, points, 2, mask=mask, node_type=kinds)
    there = model(values, points, 2, queries, mask, kinds)
    bar = 1e-12 if dtype == torch.float64 else 2e-5
    for sample in range(2):
        real = mask[sample].nonzero().flatten().tolist()
        u, where = values[sample, real].double().numpy(), points[sample, real].double().numpy()
        codes = None if kinds is None else kinds[real].tolist()
        for step in range(2):
            elsewhere = oracle(model, u, where, queries.double().numpy(), codes)
            assert relative_error(there[sample, step], torch.from_numpy(elsewhere)) < bar
            u = oracle(model, u, where, where, codes)
            assert relative_error(here[sample, step, real], torch.from_numpy(u)) < bar


def test_weights_sum_to_one_over_real_points_and_over_modes():
    model = tiny().build().double()
    points, mask = random_cloud(24, 2).view(2, 12, 2), torch.arange(12) < torch.tensor([[12], [5]])
    modes = model.geometry(points, mask, None, None).modes
    into = (modes.logits - modes.total).exp()
    assert relative_error(into.sum(dim=1), torch.ones(2, 4)) < 1e-12
    assert bool((into[1, 5:] == 0).all())
    assert modes.outward.isfinite().all()
    shared = model.geometry(points, None, None, None).modes
    assert shared.logits is shared.outward


@pytest.mark.parametrize("own_meshes", [False, True])
def test_chunks_change_neither_answers_nor_gradients(own_meshes):
    points = random_cloud(60, 2).view(2, 30, 2) if own_meshes else random_cloud(30, 2)
    values, found = random_cloud(60, 2, seed=1).view(2, 30, 2), []
    for budget in (2**28, 20_000):
        model = tiny(memory_budget=budget).build().double()
        u = model(values, points, 2)
        u.square().sum().backward()
        found.append([u, *(parameter.grad for parameter in model.parameters())])
    for whole, chunked in zip(*found, strict=True):
        assert relative_error(chunked, whole) < 1e-11


def test_memory_of_a_step_stays_within_the_budget():
    """Beside inputs, answers and the logits: 20 000 points would hold 50 MB otherwise."""
    budget, num_points = 4 * 2**20, 20_000
    peaks = {}
    for limit in (budget, 2**30):
        model = tiny(width=32, modes=16, heads=2, memory_budget=limit).build()
        points, values = torch.rand(num_points, 2), torch.rand(1, num_points, 2)
        with LiveBytes() as live:
            model(values, points, 1).square().mean().backward()
        peaks[limit] = live.peak
    logits = num_points * 16 * 4
    beside = 12 * num_points * 4 * 2  # features, answers and their gradients
    assert peaks[budget] < 2 * budget + 8 * logits + beside
    assert peaks[2**30] > 1.5 * peaks[budget]


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="heads must divide the width 6, got 4"):
        tiny(heads=4)


def test_a_spread_start_shows_each_place_in_other_modes_and_the_published_one_does_not():
    points = torch.rand(500, 2, generator=torch.Generator().manual_seed(3))
    u = torch.randn(1, 500, 1, generator=torch.Generator().manual_seed(4))
    deviations = {}
    for start in ("published", "spread"):
        model = LnoConfig.preset("navier_stokes_2d_small", start=start).build(seed=0)
        logits = model.attention(points, None, None, 2**28).logits[0]
        deviations[start] = float(logits.detach().std(dim=0).mean()), float(model(u, points, num_steps=1).detach().std())
    assert deviations["published"][0] < 0.02
    assert deviations["published"][1] < 1e-5
    assert 2.5 < deviations["spread"][0] < 3.5
    assert deviations["spread"][1] > 1e-4
