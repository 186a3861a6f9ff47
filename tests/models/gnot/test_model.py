"""GNOT: counts, an oracle of loops, gates and weights that sum to one, a cost that is linear in the points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import InputError
from calm_pde.models.gnot.attention import NormalizedAttention
from calm_pde.models.gnot.model import GnotConfig
from tests.clouds import random_cloud, relative_error
from tests.models.point_oracle import features_of, linear, mlp, moved, norm, operations, residual_mlp, two_samples
from tests.oracle import gelu_all, softmax, weights_of

PUBLISHED = 551_108  # of the published code's default sizes, with two numbers for the trunk, two for the branch, one answer


def tiny(**changes: Any) -> GnotConfig:
    base = {"dim": 2, "task": "steady", "in_channels": 3, "out_channels": 2, "width": 6, "heads": 3, "blocks": 2}
    return GnotConfig.model_validate(base | {"experts": 2, "layers": 1} | changes)


def closed_form(config: GnotConfig) -> int:
    c, inner, experts, layers = config.width, config.expansion * config.width, config.experts, config.layers

    def mlp_of(given: int, out: int) -> int:
        return given * c + c + layers * (c * c + c) + c * out + out

    gate = config.dim * inner + inner + inner * inner + inner + inner * experts + experts
    block = 2 * 4 * (c * c + c) + gate + 2 * experts * (2 * c * inner + inner + c) + 5 * 2 * c
    given = config.in_channels + config.known_channels
    maps = mlp_of(config.dim, c) + mlp_of(given, c) + mlp_of(c, config.out_channels)
    return maps + config.blocks * block + 4 * len(config.node_types)


@pytest.mark.parametrize("name", GnotConfig.presets)
def test_parameter_counts(name):
    config = GnotConfig.preset(name)
    assert sum(parameter.numel() for parameter in config.build().parameters()) == closed_form(config)
    assert closed_form(config) <= (500_000 if name.endswith("_small") else 5_000_000)


def test_the_published_size_is_counted_exactly():
    config = GnotConfig.preset("steady_airfoil", width=64, blocks=3, experts=1, expansion=4, layers=3)
    assert closed_form(config) == sum(parameter.numel() for parameter in config.build().parameters()) == PUBLISHED


def attended(w, name: str, heads: int, asks: list[np.ndarray], points: list[np.ndarray]) -> np.ndarray:
    """Each query's weights on the points, written out, sum to one per head."""
    size = len(asks[0]) // heads
    queries, keys = (
        [linear(w, f"{name}.{key}", row) for row in rows] for key, rows in (("to_query", asks), ("to_key", points))
    )
    values, out = [linear(w, f"{name}.to_value", row) for row in points], []
    for query in queries:
        mixed = np.zeros_like(query)
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            q = np.array(softmax(query[part].tolist()))
            products = [float(q @ np.array(softmax(key[part].tolist()))) for key in keys]
            mixed[part] = q + sum(p / sum(products) * value[part] for p, value in zip(products, values, strict=True))
        out.append(linear(w, f"{name}.to_out", mixed))
    return np.array(out)


def oracle(model, features: np.ndarray, points: np.ndarray, queries: np.ndarray | None, told: np.ndarray) -> np.ndarray:
    """f of one sample, at queries that see the points and are not seen, or at the points."""
    w, config = weights_of(model), model.config
    asked = points if queries is None else np.concatenate([points, queries])
    z = [residual_mlp(w, "branch", row) for row in features]
    x = np.array([residual_mlp(w, "trunk", np.concatenate([p, told])) for p in asked])
    for b in range(config.blocks):
        name = f"blocks.{b}"
        gates = []
        for p in asked:
            hidden = gelu_all(linear(w, f"{name}.gate.layers.0", p))
            gates.append(
                softmax(linear(w, f"{name}.gate.layers.2", gelu_all(linear(w, f"{name}.gate.layers.1", hidden))).tolist())
            )

        def experts(which: str, x=x, gates=gates, name=name) -> np.ndarray:
            found = []
            for row, gate in zip(x, gates, strict=True):
                mixed = sum(g * mlp(w, f"{name}.{which}.experts.{e}", row) for e, g in enumerate(gate))
                found.append(norm(w, f"{name}.{which}.norm", mixed))
            return np.array(found)

        normed = [norm(w, f"{name}.norm_cross", row) for row in x]
        x = x + attended(w, f"{name}.cross", config.heads, normed, [norm(w, f"{name}.norm_given", row) for row in z])
        x = x + experts("after_cross", x)
        normed = [norm(w, f"{name}.norm_self", row) for row in x]
        x = x + attended(w, f"{name}.attention", config.heads, normed, normed[: len(points)])
        x = x + experts("after_self", x)
    return np.array([residual_mlp(w, "head", row) for row in (x if queries is None else x[len(points) :])])


@pytest.mark.parametrize(
    "changes", [{}, {"dim": 1, "node_types": (0, 4, 6), "expansion": 2}, {"dim": 3, "coordinates": False, "parameters": 2}]
)
def test_equals_the_oracle(changes):
    """The parameters are the trunk's alone."""
    model = moved(tiny(**changes).build(seed=1)).double()
    call, asked = two_samples(model), random_cloud(4, model.config.dim, seed=8)
    here, there = model(**call), model(**call, queries=asked)
    for place in range(2):
        told = call["parameters"][place].numpy() if "parameters" in call else np.zeros(0)
        features, points, real = features_of(model, call, place)
        if "parameters" in call:
            features = np.delete(features, [3, 4], axis=1)
        assert relative_error(here[place, 0, real], torch.from_numpy(oracle(model, features, points, None, told))) < 1e-12
        wanted = oracle(model, features, points, asked.numpy(), told)
        assert relative_error(there[place, 0], torch.from_numpy(wanted)) < 1e-12


def test_gates_and_weights_sum_to_one():
    model = moved(tiny().build(seed=1)).double()
    positions = random_cloud(20, 2)[None]
    for block in model.blocks:
        gate = block.gate(positions)
        assert gate.shape == (1, 20, 2)
        assert bool((gate > 0).all())
        assert relative_error(gate.sum(dim=-1), torch.ones(1, 20)) < 1e-14
    attention = moved(NormalizedAttention(6, 3, None)).double()
    x, z = random_cloud(4, 6)[None] - 0.5, random_cloud(9, 6, seed=1)[None] - 0.5
    mask = torch.arange(9)[None] < 5
    with torch.no_grad():  # with values that are all one, the weights' sum is what is added to q
        attention.to_value.weight.zero_()
        attention.to_out.weight.copy_(torch.eye(6))
        attention.to_out.bias.zero_()
        attention.to_value.bias.zero_()
        without = attention(x, z, mask)
        attention.to_value.bias.fill_(1.0)
        assert relative_error(attention(x, z, mask) - without, torch.ones(1, 4, 6)) < 1e-12


def test_cost_is_linear_in_the_points():
    model = tiny(width=16, heads=2).build().double()
    assert operations(model, 200) == 2 * operations(model, 100)


def test_in_time_it_says_how_the_state_changes_and_answers_nowhere_else():
    model = moved(tiny(task="rollout", in_channels=2).build(seed=1)).double()
    call = two_samples(model)
    found = model(**call, num_steps=1)
    features, points, real = features_of(model, call, 1)
    wanted = call["values"][1, real] + torch.from_numpy(oracle(model, features, points, None, np.zeros(0)))
    assert relative_error(found[1, 0, real], wanted) < 1e-12
    with pytest.raises(InputError, match=r"queries: expected none.*got 3 of them.*calm"):
        model(**call, num_steps=1, queries=random_cloud(3, 2))
