"""Peak memory before the run: the step is carried out on tensors without data, and what would be alive is counted."""

from __future__ import annotations

import copy
import os
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from calm_pde.engine.buffers import MEMORY, SCRATCH
from calm_pde.engine.receptive_fields import Neighbors, neighborhood_size
from calm_pde.errors import ConfigError, InputError
from calm_pde.models.calm.hierarchy import Hierarchy
from calm_pde.models.contract import ModelConfig
from calm_pde.models.doors import frames
from calm_pde.models.size import planned_parameters
from calm_pde.types import Tensor

if TYPE_CHECKING:
    from calm_pde.models.calm.model import CalmPDE


ALLOCATOR_SHARE = 1.02  # memory that the allocator holds beyond live tensors, as measured over the presets (docs/engine.md)
TRAINED_BYTES = 16  # of a parameter: itself, its gradient and Adam's two moments, in float32
PROCESS_BYTES = 30 * 2**20  # threads, libraries' buffers and code that a first step brings in


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of all storages that operations make while they are alive, and the highest sum.

    What a pool has lent stays with the process: the peak has the most that it had lent by then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._lent = self._most_lent = 0
        self._alive: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._follow(leaf, known)
        return result

    def _follow(self, tensor: Tensor, known: set[int]) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._alive or key in known:  # what was there before the count began is not counted
            return
        lent = size if tensor.dtype == MEMORY else 0
        self._alive.add(key)
        self.now, self._lent = self.now + size, self._lent + lent
        self._most_lent = max(self._most_lent, self._lent)
        self.peak = max(self.peak, self.now - self._lent + self._most_lent)
        weakref.finalize(storage, self._leave, key, size, lent)

    def _leave(self, key: int, size: int, lent: int) -> None:
        self._alive.remove(key)
        self.now, self._lent = self.now - size, self._lent - lent


def predicted_peak(
    model: CalmPDE,
    num_points: int,
    batch: int,
    num_steps: int | None,
    num_queries: int | None = None,
    own_meshes: bool = False,
    training: bool = True,
) -> int:
    """Bytes that a step takes at the most beyond what is there before it, from shapes alone.

    A training step encodes, takes `num_steps` latent steps, decodes all frames with the first, and goes backward from a
    mean squared error. Without training it is the forward pass. Neighbor lists are counted, search chunks are not.
    """
    for name, count in (("num_points", num_points), ("batch", batch), ("num_queries", num_queries or num_points)):
        if not isinstance(count, int) or count < 1:
            raise InputError(name, expected="a whole number ≥ 1", got=repr(count), fix="Give the sizes of the step to come.")
    config = model.config
    empty = copy.deepcopy(model).to("meta").train(training)
    dtype = next(model.parameters()).dtype
    lead = (batch,) if own_meshes else ()
    num_queries = num_queries or num_points

    def new(*shape: int, kind: torch.dtype = dtype) -> Tensor:
        return torch.empty(shape, dtype=kind, device="meta")

    values, points, queries = (
        new(batch, num_points, config.in_channels),
        new(*lead, num_points, config.dim),
        new(*lead, num_queries, config.dim),
    )
    kinds = new(*lead, num_points, kind=torch.int64) if config.node_types else None

    def neighbors(layers: Hierarchy, cloud: Tensor) -> tuple[Neighbors, ...]:
        found = []
        for layer in layers:
            where = queries if layer.queries is None else layer.queries
            clouds = batch if 3 in (cloud.ndim, where.ndim) else 1
            shape = (clouds, where.shape[-2], neighborhood_size(layer.receptive_field, cloud.shape[-2]))
            found.append(Neighbors(new(*shape, kind=torch.int64), new(*shape, kind=torch.bool)))
            cloud = where
        return tuple(found)

    SCRATCH.clear()  # so that its buffers are counted, and not kept without data
    with LiveBytes() as live, torch.set_grad_enabled(training):
        encoder = neighbors(empty.encoder, points)
        z, p = empty.encoder.convolve(empty.features(values, kinds), points, None, None, encoder)
        steps = frames(empty.checked_steps(num_steps, None), None)
        zs = empty.advance(z, p, len(steps))
        decoder = neighbors(empty.decoder, p)
        u = empty.decoder.convolve(zs if training else zs[:, 1:], p, queries, None, decoder)[0]
        if training:
            (u - new(*u.shape)).square().mean().backward()
    SCRATCH.clear()
    return process_bytes(live)


def process_bytes(live: LiveBytes) -> int:
    """What a process takes for what was alive at the most."""
    return int(ALLOCATOR_SHARE * live.peak) + PROCESS_BYTES


def check_memory(config: ModelConfig) -> None:
    """Refuse a model whose parameters alone cannot be trained in this machine's memory, before any of them is made."""
    count, there = planned_parameters(config), _machine_bytes()
    if there is not None and TRAINED_BYTES * count > there:
        raise ConfigError(
            f"model: its {count:,} parameters take {TRAINED_BYTES * count / 2**30:,.1f} GiB in training ({TRAINED_BYTES} bytes "
            f"each: weight, gradient, Adam's two moments), and this machine has {there / 2**30:,.1f} GiB. Choose a smaller "
            "preset or fewer channels, or set train.check_memory to false."
        )


def _machine_bytes() -> int | None:
    """All memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
