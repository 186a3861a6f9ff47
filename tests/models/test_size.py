"""A model far too large for its data is told with the numbers, and one far too large for any machine at once."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

import calm_pde as cp
import calm_pde.models.size as module
from calm_pde.errors import ConfigError
from calm_pde.models import MODELS
from calm_pde.models.contract import ModelConfig
from calm_pde.models.size import check_memory, num_parameters, oversized, predicted_parameters, preset_step_bytes
from tests.train.runs import SAMPLE

SECONDS = 20  # an answer takes one or two; without it these models were built for hours
MANY = 10**8
REPEATING = {
    "calm": ["processor.blocks"],
    "fno": ["layers"],
    "geo_fno": ["layers"],
    "ffno": ["layers"],
    "pit": ["blocks"],
    "oformer": ["propagator_layers", "heads"],
    "lno": ["blocks", "projector_layers"],
    "aroma": ["dynamics.blocks"],
    "upt": ["blocks", "decoder_blocks", "supernodes.blocks"],
    "gaot": ["depth"],
    "mesh_graph_nets": ["steps"],
    "unet": [],
    "galerkin": ["blocks"],
    "gnot": ["blocks", "experts", "layers"],
    "ono": ["blocks"],
    "transolver": ["blocks"],
}
"""What each model has of parts that repeat."""


def changed(kind: str, *names: str, number: int) -> ModelConfig:
    """A small preset with other counts."""
    presets = MODELS[kind].presets
    changes: dict[str, Any] = {}
    for name in names:
        part, _, last = name.rpartition(".")
        place = changes.setdefault(part, {}) if part else changes
        place[last] = number
    return MODELS[kind].preset(next((name for name in presets if name.endswith("_small")), "burgers_1d"), **changes)


def test_far_more_query_points_than_points_are_told():
    model = MODELS["calm"].preset("navier_stokes_2d").build()
    told = oversized(model, 16)
    assert told is not None
    assert "encoder 1 (1,024), encoder 2 (256), decoder 1 (256), decoder 2 (1,024)" in told
    assert "the 16 points" in told
    assert "What would fit: encoder 1 16, encoder 2 16, encoder 3 16" in told


@pytest.mark.parametrize(("kind", "preset", "points"), [("calm", "elasticity", 972), ("fno", "navier_stokes_2d", 16)])
def test_what_fits_is_not_told(kind, preset, points):
    assert oversized(MODELS[kind].preset(preset).build(), points) is None


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in REPEATING.items() for name in names])
def test_too_many_parts_are_refused_at_once_with_the_numbers(kind, name):
    start = time.monotonic()
    with pytest.raises(ConfigError, match=r"model: its [\d,]+ parameters take [\d,.]+ GiB in training.*this machine has"):
        check_memory(changed(kind, name, number=MANY))
    assert time.monotonic() - start < SECONDS


def test_all_models_are_there():
    assert REPEATING.keys() == MODELS.keys()


@pytest.mark.parametrize(
    ("kind", "name", "most"), [("calm", "processor.blocks", 500), ("fno", "layers", 80), ("lno", "projector_layers", 500)]
)
def test_parts_that_are_not_counted_are_told_exactly(kind, name, most, monkeypatch):
    """By what one more adds: as the model of so many parts has them."""
    config = changed(kind, name, number=9)
    built = config.build()
    monkeypatch.setattr(module, "_MOST_MADE", most)
    assert predicted_parameters(config) == (num_parameters(built), len(list(built.parameters())))


def test_the_step_of_a_preset_on_a_file_is_that_of_its_model():
    """With the fields, points and frames of the file; a model that can't tell says nothing."""
    file = cp.DataFile(SAMPLE)
    model = cp.CalmConfig.preset("navier_stokes_2d").build()
    assert preset_step_bytes("navier_stokes_2d", file) == model.predicted_peak(
        len(file.description.points), 1, len(file.times) - 1
    )
    assert preset_step_bytes("navier_stokes_2d", file, "fno") is None
    with pytest.raises(ConfigError, match=r"burgers_1d is 1-D, and .* is 2-D. Choose a preset of that dimension."):
        preset_step_bytes("burgers_1d", file)


def test_counting_leaves_no_trace():
    """Where a count is broken off, torch learns on as before."""
    predicted_parameters(changed("oformer", "heads", number=MANY))
    assert torch.is_grad_enabled()
    assert torch.zeros(1).device.type == "cpu"


def test_parts_that_repeat_in_two_ways_are_refused():
    with pytest.raises(ConfigError, match="more parts than can be counted"):
        check_memory(changed("lno", "blocks", "projector_layers", number=MANY))


def test_small_parts_without_end_are_refused_too(monkeypatch):
    """That fit the memory of a large machine, and are built for hours all the same."""
    monkeypatch.setattr(module, "machine_bytes", lambda: 2**60)
    with pytest.raises(ConfigError, match=r"parameters are in [\d,]+ tensors, and building more than 100,000 takes minutes"):
        check_memory(changed("pit", "blocks", number=10**6))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("calm", "substeps"),
        ("gaot", "kernel_layers"),
        *(("aroma", f"autoencoder.{name}") for name in ("frequencies", "depth", "field_depth")),
    ],
)
def test_repetitions_without_end_are_refused(kind, name):
    """That take time, or so long a list, and no memory that could be told."""
    with pytest.raises(
        ConfigError, match=f"{name.rpartition('.')[2]}: Input should be less than or equal to 1000, got 100000000"
    ):
        changed(kind, name, number=MANY)


@pytest.mark.parametrize(("kind", "name"), [("fno", "width"), ("geo_fno", "deformation_width")])
@pytest.mark.parametrize("number", [10**17, 10**30])
def test_sizes_beyond_all_integers_are_refused(kind, name, number):
    with pytest.raises(ConfigError, match="model: its sizes are beyond what can be built"):
        check_memory(changed(kind, name, number=number))
