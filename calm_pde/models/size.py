"""How large a model is, and whether this machine can train it."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from calm_pde.errors import ConfigError
from calm_pde.models.contract import Model, ModelConfig

_FAR_MORE = 2  # query points for each point of the mesh
TRAINED_BYTES = 16  # of a parameter: itself, its gradient and Adam's two moments, in float32


def num_parameters(model: nn.Module) -> int:
    """Real numbers that training changes, in whatever stage: a complex weight counts as two."""
    return sum(parameter.numel() * (2 if parameter.is_complex() else 1) for parameter in model.parameters())


def planned_parameters(config: ModelConfig) -> int:
    """`num_parameters` of the model that a config builds, without memory for a single one."""
    with torch.device("meta"), _WithoutData():
        return num_parameters(config.build())


class _WithoutData(TorchFunctionMode):
    """Every tensor is made on the meta device, also where another is asked for, and nothing is drawn."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = {name: "meta" if name == "device" else value for name, value in (kwargs or {}).items() if name != "generator"}
        return func(*args, **options)


def check_memory(config: ModelConfig) -> None:
    """Refuse a model whose parameters alone cannot be trained in this machine's memory, before any of them is made."""
    count, there = planned_parameters(config), _machine_bytes()
    if there is not None and TRAINED_BYTES * count > there:
        raise ConfigError(
            f"model: its {count:,} parameters take {TRAINED_BYTES * count / 2**30:,.1f} GiB in training ({TRAINED_BYTES} bytes "
            f"each: weight, gradient, Adam's two moments), and this machine has {there / 2**30:,.1f} GiB. Choose a smaller "
            "preset or fewer channels, or set train.check_memory to false."
        )


def oversized(model: Model, num_points: int) -> str | None:
    """What to tell of a model whose layers have far more query points than a mesh has points; None where all is well."""
    layers = model.query_points() if model.config.abilities.shows_inside else []
    found = [f"{layer.name} ({len(layer.positions):,})" for layer in layers if len(layer.positions) > _FAR_MORE * num_points]
    if not found:
        return None
    fitting = ", ".join(f"{layer.name} {min(len(layer.positions), num_points):,}" for layer in layers)
    return (
        f"model: layers with more than {_FAR_MORE} query points for each of the {num_points:,} points of the smallest mesh: "
        f"{', '.join(found)}. Most of them learn nothing. What would fit: {fitting} (model.encoder.num_queries, "
        "model.decoder.num_queries), or a smaller preset."
    )


def _machine_bytes() -> int | None:
    """All memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
