"""The bytes that operations keep alive, counted while they run."""

from __future__ import annotations

import weakref
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from calm_pde.engine.buffers import MEMORY
from calm_pde.types import Tensor

ALLOCATOR_SHARE = 1.02  # memory that the allocator holds beyond live tensors, as measured over the presets (docs/engine.md)
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


def process_bytes(live: LiveBytes) -> int:
    """What a process takes for what was alive at the most."""
    return int(ALLOCATOR_SHARE * live.peak) + PROCESS_BYTES
