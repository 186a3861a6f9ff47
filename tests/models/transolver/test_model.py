"""Transolver: counts, an oracle of loops, slices that share every point, grids whose nodes are told or recognized."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError, InputError
from calm_pde.models.transolver.model import TransolverConfig
from calm_pde.models.transolver.slices import Place
from tests.clouds import random_cloud, relative_error
from tests.models.contract import full_grid
from tests.models.point_oracle import features_of, linear, mlp, moved, norm, operations, two_samples
from tests.oracle import softmax, weights_of

COUNTS = {"steady_airfoil": 2_810_817, "elasticity": 713_665}


def tiny(**changes: Any) -> TransolverConfig:
    base = {"dim": 2, "task": "steady", "in_channels": 3, "out_channels": 2, "width": 6, "heads": 3, "blocks": 2, "slices": 4}
    return TransolverConfig.model_validate(base | changes)


@pytest.mark.parametrize("name", TransolverConfig.presets)
def test_parameter_counts(name):
    config = TransolverConfig.preset(name)
    c, inner, given = config.width, config.expansion * config.width, config.in_channels + config.known_channels
    d, taps = c // config.heads, 3**config.dim if config.layout == "grid" else 1
    attention = 2 * (taps * c * c + c) + d * config.slices + config.slices + config.heads + 3 * d * d + c * c + c
    block = 2 * 2 * c + attention + c * inner + inner + inner * c + c
    closed = 2 * c * given + 2 * c + 2 * c * c + c + c + config.blocks * block + 2 * c + config.out_channels * (c + 1)
    closed += 4 * len(config.node_types)
    assert sum(parameter.numel() for parameter in config.build().parameters()) == closed
    assert closed == COUNTS[name] if name in COUNTS else closed <= (500_000 if name.endswith("_small") else 3_000_000)


def convolved(w, name: str, x: np.ndarray, shape: tuple[int, ...], periodic: tuple[bool, ...]) -> np.ndarray:
    """Σ over the neighbors on the grid, one by one; rows in the order of the cells."""
    weight, out = w[f"{name}.weight"], np.tile(w[f"{name}.bias"], (len(x), 1))
    for cell in np.ndindex(shape):
        for tap in itertools.product(range(3), repeat=len(shape)):
            there = [c + t - 1 for c, t in zip(cell, tap, strict=True)]
            if any(not wraps and not 0 <= t < n for t, n, wraps in zip(there, shape, periodic, strict=True)):
                continue
            source = np.ravel_multi_index([t % n for t, n in zip(there, shape, strict=True)], shape)
            out[np.ravel_multi_index(cell, shape)] += weight[(..., *tap)] @ x[source]
    return out


def oracle(model, features: np.ndarray, shape: tuple[int, ...] = ()) -> np.ndarray:
    """f of one sample, of features in the order of the cells where there is a grid."""
    w, config = weights_of(model), model.config
    size, slices = config.width // config.heads, range(config.slices)
    periodic = config.periodic if isinstance(config.periodic, tuple) else (config.periodic,) * config.dim

    def read(name: str, rows: np.ndarray) -> np.ndarray:
        return convolved(w, name, rows, shape, periodic) if shape else np.array([linear(w, name, row) for row in rows])

    x = np.array([mlp(w, "network.embed", row) + w["network.everywhere"] for row in features])
    for b in range(config.blocks):
        name = f"network.blocks.{b}.attention"
        normed = np.array([norm(w, f"{name}.norm", row) for row in x])
        placed, values, mixed = read(f"{name}.to_place", normed), read(f"{name}.to_value", normed), np.zeros_like(x)
        for h in range(config.heads):
            part = slice(h * size, (h + 1) * size)
            tau = min(max(w[f"{name}.temperature"][h], 0.1), 5.0)
            shares = [softmax((linear(w, f"{name}.to_slices", row[part]) / tau).tolist()) for row in placed]
            tokens = []
            for g in slices:
                total = sum(share[g] for share in shares)
                tokens.append(sum(share[g] * row[part] for share, row in zip(shares, values, strict=True)) / (total + 1e-5))
            q, k, v = ([linear(w, f"{name}.{which}", t) for t in tokens] for which in ("query", "key", "value"))
            moved_tokens = []
            for g in slices:
                weights = softmax([float(q[g] @ k[other]) / math.sqrt(size) for other in slices])
                moved_tokens.append(sum(weight * row for weight, row in zip(weights, v, strict=True)))
            for n, share in enumerate(shares):
                mixed[n, part] = sum(share[g] * moved_tokens[g] for g in slices)
        x = np.array([row + linear(w, f"{name}.to_out", mixed[n]) for n, row in enumerate(x)])
        block = f"network.blocks.{b}"
        x = np.array([row + mlp(w, f"{block}.mlp", norm(w, f"{block}.norm", row)) for row in x])
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


@pytest.mark.parametrize(
    ("dim", "shape", "periodic"), [(1, (7,), True), (2, (4, 3), (True, False)), (3, (2, 3, 2), (False, True, False))]
)
def test_on_a_bent_grid_equals_the_oracle(dim, shape, periodic):
    """Whose nodes are where they are, other ones for each sample."""
    model = moved(tiny(dim=dim, layout="grid", shape=shape, periodic=periodic).build(seed=1)).double()
    count = math.prod(shape)
    call = two_samples(model, count, count)
    found = model(**call)
    for place in range(2):
        features, _, _ = features_of(model, call, place)
        assert relative_error(found[place, 0], torch.from_numpy(oracle(model, features, shape))) < 1e-12


def test_a_straight_grid_needs_no_shape():
    model = moved(tiny(layout="grid").build(seed=1)).double()
    told = moved(tiny(layout="grid", shape=(8, 7)).build(seed=1)).double()
    points, values = full_grid(2), random_cloud(56, 3, seed=4)[None]
    order = np.lexsort(points.numpy().T[::-1])
    in_rows = torch.from_numpy(np.ascontiguousarray(order))
    assert relative_error(model(values, points)[:, :, in_rows], told(values[:, in_rows], points[in_rows])) < 1e-12


def test_slices_share_every_point():
    """Each real point's weights sum to one in every head; masked ones have none."""
    model = moved(tiny().build(seed=1)).double()
    mask = torch.arange(12) < torch.tensor([[12], [5]])
    attention = model.network.blocks[0].attention
    weights = attention.weights(random_cloud(24, 6).view(2, 12, 6), Place(mask, None))
    assert weights.shape == (2, 3, 12, 4)
    assert relative_error(weights.sum(dim=-1), mask[:, None].expand(-1, 3, -1).double()) < 1e-14
    assert bool((weights >= 0).all())


def test_temperatures_that_leave_their_range_are_held():
    model = moved(tiny().build(seed=1)).double()
    call, found = two_samples(model), []
    for temperature in (0.1, 0.0, -3.0):
        with torch.no_grad():
            for block in model.network.blocks:
                block.attention.temperature.fill_(temperature)
        found.append(model(**call))
    assert bool(found[1].isfinite().all())
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_slices_start_apart():
    """Rows of the map to the slices that are as many as a head has channels are orthogonal."""
    weight = tiny(width=24, heads=3, slices=5).build().network.blocks[0].attention.to_slices.weight
    assert relative_error(weight @ weight.mT, torch.eye(5)) < 1e-5


def test_cost_is_linear_in_the_points():
    """Beside what the slices say to one another."""
    model = tiny(width=16, heads=2).build().double()
    one, two, three = (operations(model, points) for points in (100, 200, 300))
    assert three - two == two - one > 0.9 * one


def test_in_time_it_answers_the_change():
    model = moved(tiny(task="rollout", in_channels=2).build(seed=1)).double()
    call = two_samples(model)
    found = model(**call, num_steps=1)
    features, _, real = features_of(model, call, 1)
    assert relative_error(found[1, 0, real], call["values"][1, real] + torch.from_numpy(oracle(model, features))) < 1e-12


def test_mistakes_are_named():
    for changes, message in (
        ({"heads": 4}, "heads must divide the width 6, got 4"),
        ({"shape": (4, 3)}, r"shape: expected 2 numbers of nodes with layout: grid, got \[4, 3\]"),
        ({"shape": (4,), "layout": "grid"}, r"shape: expected 2 numbers of nodes with layout: grid, got \[4\]"),
    ):
        with pytest.raises(ConfigError, match=message):
            tiny(**changes)
    model = tiny(layout="grid", shape=(4, 3)).build()
    values, points = torch.rand(2, 12, 3), torch.rand(12, 2)
    with pytest.raises(InputError, match=r"points: expected the 12 nodes of a grid of 4 × 3.*got 11 points.*layout: points"):
        model(values[:, :11], points[:11])
    mask = torch.arange(12).expand(2, -1) < 11
    with pytest.raises(InputError, match="mask: expected none, since Transolver has layout: grid, got 2 masked points"):
        model(values, points, mask=mask)
