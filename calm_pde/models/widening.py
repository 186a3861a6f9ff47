"""Weights of a model for one that is told more beside the state: what is new starts without a word."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from calm_pde.errors import ConfigError
from calm_pde.models.contract import CONDITIONS, Model, ModelConfig, Reading
from calm_pde.types import Tensor


def widened_weights(old: ModelConfig, weights: Mapping[str, Tensor], new: Model) -> dict[str, Tensor]:
    """The old weights as those of a new model that is told more, and at first answers as the old one whatever it is told.

    Conditions that the old model had are the first of their kind, in their order. A parameter that reads more than before gets
    zeros for it; one that the old model has not keeps its start in the new one, which is without a word.

    Args:
        new: freshly built, alike but for its numbers of conditions.
    """
    _check(old, new.config)
    reading, found = new.reading(), {}
    for name, fresh in new.state_dict().items():
        known = weights.get(name)
        if known is None or known.shape == fresh.shape:
            found[name] = fresh if known is None else known
        elif name in reading:
            found[name] = _widened(known, fresh, reading[name], old, new.config)
        else:
            raise ConfigError(f"model: {name} cannot grow from {tuple(known.shape)} to {tuple(fresh.shape)}.")
    return found


def _check(old: ModelConfig, new: ModelConfig) -> None:
    """Of one kind, and alike but for conditions, of which there may only be more."""
    nothing = dict.fromkeys(CONDITIONS, 0)
    if type(old) is not type(new) or old.model_dump() | nothing != new.model_dump() | nothing:
        raise ConfigError("model: expected the old one's settings but for parameters, signals and features. Copy them.")
    for name in CONDITIONS:
        if getattr(new, name) < getattr(old, name):
            raise ConfigError(
                f"model.{name}: expected at least the old model's {getattr(old, name)}, got {getattr(new, name)}."
            )


def _widened(known: Tensor, fresh: Tensor, reading: Reading, old: ModelConfig, new: ModelConfig) -> Tensor:
    """The known numbers at their places, zeros where more is read, and the fresh numbers of outputs that were not there."""
    everywhere = [torch.arange(size) for size in fresh.shape]
    kept, cleared = list(everywhere), list(everywhere)
    for axis in (reading.axis, reading.written):
        if axis is not None:
            kept[axis] = torch.tensor(_places(fresh.shape[axis], reading, old, new))
    if reading.written is not None and not reading.silent:
        cleared[reading.written] = kept[reading.written]
    found = fresh.clone()
    found[torch.meshgrid(*cleared, indexing="ij")] = 0
    found[torch.meshgrid(*kept, indexing="ij")] = known.to(found)
    return found


def _places(size: int, reading: Reading, old: ModelConfig, new: ModelConfig) -> list[int]:
    """Where the old channels stand among the new ones."""
    unit, before = size // reading.repeats, reading.before
    kept = list(range(before))
    for kind in reading.kinds:
        kept += range(before, before + getattr(old, kind))
        before += getattr(new, kind)
    kept += range(before, unit)
    return [unit * repeat + place for repeat in range(reading.repeats) for place in kept]
