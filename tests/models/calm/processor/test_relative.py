"""Tokens that know each other's displacements alone: against the oracle, and alike wherever they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.models.calm.processor.attention import RelativePositions, nearness
from calm_pde.models.calm.processor.processor import Processor
from tests import oracle
from tests.clouds import random_cloud, relative_error

SIZES = {"width": 12, "heads": 3, "blocks": 2, "fourier_width": 8, "fourier_std": 1.0}
PERIODIC = (True, False)


def stirred(positions: str, periodic: tuple[bool, ...] = PERIODIC) -> Processor:
    """Weights that start at zero hide what they weigh."""
    generator = torch.Generator().manual_seed(0)
    processor = Processor(6, len(periodic), periodic, **SIZES, positions=positions, generator=generator).double()
    for parameter in processor.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return processor


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def test_what_attention_adds_is_the_formula_written_out() -> None:
    module = RelativePositions(PERIODIC, 3, 8, 1.0, torch.Generator().manual_seed(0)).double()
    torch.nn.init.normal_(module.reduce.weight, generator=torch.Generator().manual_seed(1))
    p = random_cloud(5, 2, seed=1)
    w = oracle.weights_of(module)
    with torch.no_grad():
        found = nearness(p, PERIODIC, module)
    assert found.shape == (1, 3, 5, 5)
    for i in range(5):
        for j in range(5):
            d = oracle.difference(p[i].numpy(), p[j].numpy(), PERIODIC)
            turns = [2 * math.pi * float(d @ w["frequencies"][:, f]) for f in range(4)]
            features = np.array([*map(math.sin, turns), *map(math.cos, turns)])
            hidden = np.array([gelu(x) for x in w["expand.weight"] @ features + w["expand.bias"]])
            wanted = w["reduce.weight"] @ hidden - oracle.norm_squared(d)
            np.testing.assert_allclose(found[0, :, i, j], wanted, rtol=1e-12, atol=1e-13)


def test_a_fresh_bias_adds_nothing_and_leaves_the_other_weights() -> None:
    """`both` starts as `absolute` does, to the bit of its weights."""
    plain, both = (
        Processor(6, 2, PERIODIC, **SIZES, positions=known, generator=torch.Generator().manual_seed(0)).double()
        for known in ("absolute", "both")
    )
    theirs = both.state_dict()
    assert all(torch.equal(value, theirs[name]) for name, value in plain.state_dict().items())
    z, p = random_cloud(10, 6).view(2, 5, 6), random_cloud(5, 2, seed=1)
    assert relative_error(both(z, p), plain(z, p)) < 1e-12


@pytest.mark.parametrize("positions", ["relative", "both", "absolute"])
def test_relative_positions_know_no_place(positions: str) -> None:
    """Tokens that move together, across the seam too, change alike; with absolute positions they do not."""
    processor, p = stirred(positions), random_cloud(5, 2, seed=1)
    z = random_cloud(10, 6).view(2, 5, 6)
    off = relative_error(processor(z, p + torch.tensor([0.7, 0.25], dtype=torch.float64)), processor(z, p))
    assert (off < 1e-11) == (positions == "relative"), off


def test_heads_look_to_one_side() -> None:
    """A mirror image of the positions is told apart, which distances alone can't."""
    processor, p = stirred("relative", (True, True)), random_cloud(5, 2, seed=1)
    z = random_cloud(10, 6).view(2, 5, 6)
    assert relative_error(processor(z, -p), processor(z, p)) > 1e-3


def test_a_model_on_a_lattice_commutes_with_its_translations() -> None:
    """With queries that rest on a lattice, one kernel for all, and relative positions: by whole steps of every layer."""
    config = {
        "dim": 1,
        "in_channels": 1,
        "out_channels": 1,
        "periodic": True,
        "encoder": {"channels": (4, 6), "num_queries": (16, 8), "receptive_field": (0.2, 0.3), "temperature": (1.0, 1.0)},
        "decoder": {"channels": (5,), "num_queries": (16,), "receptive_field": (0.3, 0.2), "temperature": (1.0, 1.0)},
        "processor": {"heads": 2, "blocks": 1, "fourier_width": 6, "positions": "relative"},
        "spread": "even",
        "learnable_queries": False,
        "modulation": False,
    }
    model = cp.CalmConfig.model_validate(config).build(seed=0).double()
    points, u = (torch.arange(32.0, dtype=torch.float64)[:, None] + 0.5) / 32, random_cloud(2 * 32, 1).view(2, 32, 1)
    moved = model(u.roll(4, dims=1), points, 3)
    assert relative_error(moved, model(u, points, 3).roll(4, dims=2)) < 1e-10
    assert relative_error(moved, model(u, points, 3)) > 1e-3
