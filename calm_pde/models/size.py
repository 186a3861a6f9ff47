"""How large a model is, and whether this machine can train it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from calm_pde.data.storage import DataFile
from calm_pde.errors import ConfigError
from calm_pde.models.contract import Model, ModelConfig
from calm_pde.models.registry import MODELS, OURS
from calm_pde.types import Tensor

_FAR_MORE = 2  # query points for each point of the mesh
_MOST_MADE = 3_000  # tensors, while a model is built to be counted: about a second; the largest preset makes 455
_MOST_TENSORS = 100_000
TRAINED_BYTES = 16  # of a parameter: itself, its gradient and Adam's two moments, in float32


def num_parameters(model: nn.Module) -> int:
    """Real numbers that training changes, in whatever stage: a complex weight counts as two."""
    return sum(parameter.numel() * (2 if parameter.is_complex() else 1) for parameter in model.parameters())


class ParameterCount(NamedTuple):
    """How many real numbers training changes, and how many tensors hold them."""

    numbers: int
    tensors: int


def predicted_parameters(config: ModelConfig) -> ParameterCount:
    """Of the model that a config builds, without memory for a single one.

    A model of very many parts is not built to its end, but told from what one more of those that repeat adds.
    """
    whole = _counted(config)
    if whole is not None:
        return whole
    content = config.model_dump()
    for path, number in sorted(_whole_numbers(content), key=lambda found: -found[1]):
        with suppress(ConfigError):  # a number that may not be 2 or 3 is none of repeated parts
            two, three = (_counted(type(config).model_validate(_changed(content, path, few))) for few in (2, 3))
            if two is not None and three is not None:
                return ParameterCount(*(a + (number - 2) * (b - a) for a, b in zip(two, three, strict=True)))
    raise ConfigError(
        f"model: it has more parts than can be counted in {_MOST_MADE:,} tensors. Choose fewer layers or blocks, or "
        "set train.check_memory to false."
    )


def _counted(config: ModelConfig) -> ParameterCount | None:
    """None where the model has too many parts to build them all."""
    try:
        with torch.device("meta"), _WithoutData():
            model = config.build()
    except _TooManyTensorsError:
        return None
    except (MemoryError, OverflowError, RuntimeError, TypeError) as error:
        if not isinstance(error, MemoryError | OverflowError) and "verflow" not in str(error):
            raise
        words = str(error).partition("\n")[0] or type(error).__name__
        raise ConfigError(f"model: its sizes are beyond what can be built ({words}). Choose smaller ones.") from error
    return ParameterCount(num_parameters(model), len(list(model.parameters())))


def _whole_numbers(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Of nested settings, each with its place."""
    if isinstance(content, int) and not isinstance(content, bool):
        yield path, content
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, tuple) else ()
    for name, part in parts:
        yield from _whole_numbers(part, (*path, name))


def _changed(content: Any, path: tuple[Any, ...], number: int) -> Any:
    if not path:
        return number
    if isinstance(content, dict):
        return content | {path[0]: _changed(content[path[0]], path[1:], number)}
    return tuple(_changed(part, path[1:], number) if place == path[0] else part for place, part in enumerate(content))


class _TooManyTensorsError(Exception):
    pass


class _WithoutData(TorchFunctionMode):
    """Every tensor is made on the meta device, also where another is asked for, and nothing is drawn; only so many are made."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = {name: "meta" if name == "device" else value for name, value in (kwargs or {}).items() if name != "generator"}
        found = func(*args, **options)
        if isinstance(found, Tensor):  # what is none may end a context, and must
            self.made += 1
            if self.made > _MOST_MADE:
                raise _TooManyTensorsError
        return found


def check_memory(config: ModelConfig) -> None:
    """Refuse a model whose parameters alone cannot be trained in this machine's memory, before any of them is made."""
    count, there = predicted_parameters(config), machine_bytes()
    taken = TRAINED_BYTES * count.numbers
    if there is not None and taken > there:
        raise ConfigError(
            f"model: its {count.numbers:,} parameters take {taken / 2**30:,.1f} GiB in training ({TRAINED_BYTES} bytes "
            f"each: weight, gradient, Adam's two moments), and this machine has {there / 2**30:,.1f} GiB. Choose a smaller "
            "preset or fewer channels, or set train.check_memory to false."
        )
    if count.tensors > _MOST_TENSORS:
        raise ConfigError(
            f"model: its {count.numbers:,} parameters are in {count.tensors:,} tensors, and building more than "
            f"{_MOST_TENSORS:,} takes minutes. Choose fewer layers or blocks, or set train.check_memory to false."
        )


def preset_step_bytes(preset: str, file: DataFile, kind: str = OURS) -> int | None:
    """Bytes that a training step on one trajectory of a file takes at the most; None of a model that can't tell."""
    config, dim, channels = MODELS[kind].preset(preset), file.description.box.dim, len(file.description.fields)
    if config.dim != dim:
        raise ConfigError(f"preset: {preset} is {config.dim}-D, and {file.path} is {dim}-D. Choose a preset of that dimension.")
    model = MODELS[kind].preset(preset, in_channels=channels, out_channels=channels).build()
    return model.predicted_peak(int(file.num_points.max()), 1, max(1, len(file.times) - 1))


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


def machine_bytes() -> int | None:
    """All memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
