"""Weights that start by the training data: every layer's output has unit variance, and ψ a tenth of its deviation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import calm_pde as cp
from calm_pde.data.writing import write
from calm_pde.errors import ConfigError, InputError
from calm_pde.models import MODELS
from calm_pde.records.inputs import Inputs
from calm_pde.train.config import Recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show
from tests.clouds import random_cloud
from tests.data.sets import own_source, shared_source
from tests.models.calm.learning.test_beside import built


def given(samples: int, masked: bool, seed: int = 0) -> Inputs:
    """Normalized fields of two waves, on one mesh or on padded ones with what is no number behind their points."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.stack([random_cloud(60, 2, seed=50 + one) for one in range(samples)]) if masked else random_cloud(60, 2)
    phases = torch.rand(samples, 1, 2, generator=generator, dtype=torch.float64)
    values = 2**0.5 * torch.sin(2 * torch.pi * (points[..., :1] + phases) + torch.tensor([0.0, 1.0]))
    if not masked:
        return Inputs(values, points)
    mask = torch.arange(60) < torch.randint(30, 61, (samples, 1), generator=generator)
    hidden = ~mask[..., None]
    return Inputs(values.masked_fill(hidden, torch.nan), points.masked_fill(hidden, torch.nan), mask=mask)


def deviations(model: cp.CalmPDE, inputs: Inputs) -> list[float]:
    """Of every layer's answers to the inputs as the model itself computes them, and of ψ."""
    z, p = model.encode(inputs.values, inputs.points, inputs.mask)
    real = slice(None) if inputs.mask is None else inputs.mask
    points = inputs.points if inputs.mask is None else inputs.points.masked_fill(~inputs.mask[..., None], 0.0)
    found, (x, where) = [], model.encoder[0](inputs.values, inputs.points, mask=inputs.mask)
    found.append(x)
    for layer in list(model.encoder)[1:]:
        x, where = layer(x, where)
        found.append(x)
    torch.testing.assert_close(x, z)
    found.append((model.advance(z, p, 1)[:, 1] - z) / 0.1)
    for layer in list(model.decoder)[:-1]:
        x, where = layer(x, where)
        found.append(x)
    found.append(model.decoder[-1](x, where, queries=points)[0][real])
    return [float(y.detach().std()) for y in found]


@pytest.mark.parametrize("masked", [False, True], ids=["one mesh", "own meshes"])
def test_every_layer_answers_with_unit_variance(masked: bool) -> None:
    inputs = given(8, masked)
    model = built(start="unit_variance")
    assert max(abs(found - 1) for found in deviations(model, inputs)) > 0.3
    model.start_by(inputs)
    for found in deviations(model, inputs):
        assert found == pytest.approx(1, abs=2e-3)
    for found in deviations(model, given(8, masked, seed=1)):
        assert found == pytest.approx(1, abs=0.35)
    assert model.training


def test_what_is_scaled_is_filters_and_the_last_map_alone() -> None:
    model, drawn = built(start="unit_variance"), built()
    model.start_by(given(4, masked=False))
    for (name, weight), before in zip(model.named_parameters(), drawn.parameters(), strict=True):
        ratio = (weight / before)[before != 0]
        scaled = name.endswith("kernel.filters") or name.startswith("processor.to_out")
        assert bool((ratio == 1).all()) != scaled, name
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio), msg=name) if scaled and len(ratio) else None


def test_a_field_of_zeros_scales_nothing_to_infinity() -> None:
    model = built(start="unit_variance")
    inputs = given(2, masked=False)
    model.start_by(Inputs(torch.zeros_like(inputs.values), inputs.points))
    assert all(bool(weight.isfinite().all()) for weight in model.parameters())


@pytest.mark.parametrize(("source", "kinds"), [(shared_source, {}), (own_source, {"node_types": [0, 4, 6]})])
def test_training_starts_by_its_own_data(source: Any, kinds: dict[str, Any], tmp_path: Path) -> None:
    from tests.train.test_curriculum import MODEL

    write(source(20, frames=6), tmp_path / "a.h5").close()
    runs = []
    for start in ("drawn", "unit_variance", "unit_variance"):
        content = {
            "name": "t",
            "data": {"file": tmp_path / "a.h5", "conditions": False},
            "model": MODEL | kinds | {"start": start},
            "train": {"epochs": 1, "batch_size": 4, "first_length": 3},
        }
        runs.append(Trainer(Recipe.model_validate(content), tmp_path / f"run{len(runs)}", Show(Console(quiet=True))))
    drawn, once, twice = (run.model.state_dict() for run in runs)
    assert all(torch.equal(once[name], twice[name]) for name in once)
    assert not torch.equal(drawn["encoder.0.kernel.filters"], once["encoder.0.kernel.filters"])
    batch = next(runs[1].data.batches(runs[1].groups(0)[:1]))
    seen = runs[1].surrogate.translator.inputs(batch, torch.float32)
    z, _ = runs[1].model.encode(seen.values, seen.points, **seen.told)
    assert float(z.detach().std()) == pytest.approx(1, abs=0.5)


def test_models_that_do_not_start_by_data_say_so() -> None:
    with pytest.raises(InputError, match="starts_by_data"):
        MODELS["fno"].preset("burgers_1d_small").build().start_by(given(2, masked=False))
    with pytest.raises(ConfigError, match="start: the distance kernel has no filters"):
        built(start="unit_variance", kernel="distance")
