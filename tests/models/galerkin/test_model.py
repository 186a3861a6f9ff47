"""The Galerkin Transformer: counts, an oracle that writes the kernel out, and a cost that is linear in the points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError
from calm_pde.models.galerkin.model import GalerkinConfig
from tests.clouds import relative_error
from tests.models.point_oracle import features_of, linear, mlp, moved, norm, operations, two_samples
from tests.oracle import softmax, weights_of

COUNTS = {"steady_airfoil": 832_897, "elasticity": 1_096_065}


def tiny(**changes: Any) -> GalerkinConfig:
    base = {"dim": 2, "task": "steady", "in_channels": 3, "out_channels": 2, "width": 6, "heads": 3, "blocks": 2}
    return GalerkinConfig.model_validate(base | changes)


@pytest.mark.parametrize("name", GalerkinConfig.presets)
def test_parameter_counts(name):
    config = GalerkinConfig.preset(name)
    c, inner, given = config.width, config.expansion * config.width, config.in_channels + config.known_channels
    block = 3 * 2 * c + 4 * (c * c + c) + c * inner + inner + inner * c + c
    closed = 2 * c * given + 2 * c + 2 * c * c + c + c + config.blocks * block + 2 * c + config.out_channels * (c + 1)
    closed += 4 * len(config.node_types)
    assert sum(parameter.numel() for parameter in config.build().parameters()) == closed
    assert closed == COUNTS[name] if name in COUNTS else closed <= (500_000 if name.endswith("_small") else 900_000)


def oracle(model, features: np.ndarray) -> np.ndarray:
    """f of one sample with its kernel, a matrix of points by points."""
    w, config = weights_of(model), model.config
    size = config.width // config.heads
    x = [mlp(w, "network.embed", row) + w["network.everywhere"] for row in features]
    count = len(x)
    for b in range(config.blocks):
        name = f"network.blocks.{b}"
        asks = [linear(w, f"{name}.attention.to_query", norm(w, f"{name}.attention.norm_query", row)) for row in x]
        given = [norm(w, f"{name}.attention.norm_key", row) for row in x]
        keys = [linear(w, f"{name}.attention.to_key", row) for row in given]
        values = [linear(w, f"{name}.attention.to_value", row) for row in given]
        mixed = np.zeros((count, config.width))
        for h in range(config.heads):
            part = slice(h * size, (h + 1) * size)
            q, k = ([softmax(row[part].tolist()) for row in rows] for rows in (asks, keys))
            for i in range(count):
                mixed[i, part] = q[i]
                for j in range(count):
                    mixed[i, part] += float(np.dot(q[i], k[j])) / count * values[j][part]
        x = [x[i] + linear(w, f"{name}.attention.to_out", mixed[i]) for i in range(count)]
        x = [row + mlp(w, f"{name}.mlp", norm(w, f"{name}.norm", row)) for row in x]
    return np.array([linear(w, "network.head", norm(w, "network.norm", row)) for row in x])


@pytest.mark.parametrize(
    "changes", [{}, {"dim": 1, "node_types": (0, 4, 6), "expansion": 2}, {"dim": 3, "coordinates": False, "parameters": 2}]
)
def test_equals_the_oracle(changes):
    model = moved(tiny(**changes).build(seed=1)).double()
    call = two_samples(model)
    found = model(**call)
    for place in range(2):
        features, _, real = features_of(model, call, place)
        assert relative_error(found[place, 0, real], torch.from_numpy(oracle(model, features))) < 1e-12


def test_in_time_it_answers_the_change():
    model = moved(tiny(task="rollout", in_channels=2).build(seed=1)).double()
    call = two_samples(model)
    found = model(**call, num_steps=2)
    for place in range(2):
        for step in range(2):
            features, _, real = features_of(model, call, place)
            wanted = call["values"][place, real] + torch.from_numpy(oracle(model, features))
            assert relative_error(found[place, step, real], wanted) < 1e-12
            call = call | {"values": call["values"].clone()}
            call["values"][place, real] = wanted


def test_cost_is_linear_in_the_points():
    model = tiny(width=16, heads=2).build().double()
    assert operations(model, 200) == 2 * operations(model, 100)


def test_mistakes_are_named():
    with pytest.raises(ConfigError, match="heads must divide the width 6, got 4"):
        tiny(heads=4)
