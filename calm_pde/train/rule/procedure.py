"""How a CALM-PDE is trained by the rule: optimizer, batches, windows, threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from calm_pde.models import Model
from calm_pde.models.size import machine_bytes
from calm_pde.train.rule.survey import Survey

EPOCH_STEPS = 20
"""The fewest of an epoch."""
MOST_BATCHED = 8
LEARNING_RATE = 6e-3
_BATCHES = 10  # of all trajectories, where batches may be large
_MEMORY_SHARE = 0.5
_ONE_THREAD = 2_000_000  # values of a step's frames: up to here one thread is fastest
_FIRST_LENGTH = 7


class Batches(NamedTuple):
    """Windows of a step, how many of each trajectory an epoch shows, and the bytes that a step takes at the most."""

    size: int
    windows: int
    peak: int | None


def procedure(found: Survey, model: Model) -> tuple[dict[str, Any], Batches]:
    """The `train` part of a recipe but for its length, and what its batches rest on."""
    steps = None if found.description.steady else found.frames - 1
    own = not found.description.shared_mesh
    batches = batches_of(found.trajectories, lambda batch: model.predicted_peak(found.most, batch, steps, own_meshes=own))
    content: dict[str, Any] = {
        "batch_size": batches.size,
        "optimizer": "muon",
        "learning_rate": LEARNING_RATE,
        "gradient_clip": 1.0,
    }
    if batches.windows > 1:
        content["windows_per_trajectory"] = batches.windows
    if found.frames > 1:
        content["first_length"] = first_length(found.frames)
    placed = found.description.parameters or found.description.signals  # which may tell of places
    if not found.description.shared_mesh and not found.description.steady and not placed:
        content["random_offset"] = 0.03
    if found.moves:
        content["augment"] = "symmetries"
    if batches.size * found.most * found.frames * len(found.fields) <= _ONE_THREAD:
        content["threads"] = 1
    return content, batches


def first_length(frames: int) -> int:
    """Frames of the first windows: half of them, up to the paper's 7."""
    return max(min(2, frames), min(_FIRST_LENGTH, frames // 2))


def batches_of(trajectories: int, peak_of: Callable[[int], int | None]) -> Batches:
    """A tenth of the trajectories, 2 to 8, as long as the step fits into half of the memory; an epoch shows so many windows of
    each that it has 20 steps.

    Args:
        peak_of: the bytes that a step of so many windows takes at the most.
    """
    size = max(min(2, trajectories), min(MOST_BATCHED, trajectories // _BATCHES))
    room = _MEMORY_SHARE * (available_bytes() or math.inf)
    peak = peak_of(size)
    while size > 1 and peak is not None and peak > room:
        size //= 2
        peak = peak_of(size)
    return Batches(size, max(1, math.ceil(EPOCH_STEPS * size / trajectories)), peak)


def fitting_batch(windows: int) -> int:
    """Of an epoch of so many windows, that makes 20 steps of it."""
    return max(1, windows // EPOCH_STEPS)


def available_bytes() -> int | None:
    """All memory of the device that trains."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(0).total_memory
    return machine_bytes()
