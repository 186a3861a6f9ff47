"""Memory that is used again: mapping fresh memory costs more than filling it, on a virtual machine several times over."""

from __future__ import annotations

import math
import threading
import weakref
from collections import deque

import torch

from calm_pde.types import Tensor


def ordinary(size: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> Tensor:
    """Memory that any later call may use, also where it is first asked for in inference mode."""
    if not torch.is_inference_mode_enabled():
        return torch.empty(size, dtype=dtype, device=device)
    with torch.inference_mode(False):
        return torch.empty(size, dtype=dtype, device=device)


class Scratch(threading.local):
    """Buffers that chunk after chunk and step after step write to again.

    They never hold more than the largest chunk did, and nothing that outlives a forward or backward lies in them.
    """

    def __init__(self) -> None:
        self._buffers: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}

    def new(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """A tensor of this shape; what was last asked for under the name is overwritten."""
        size, key = math.prod(shape), (name, like.dtype, like.device)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < size:
            self._buffers.pop(key, None)
            buffer = self._buffers[key] = ordinary(size, like.dtype, like.device)
        return buffer[:size].view(shape)

    def clear(self) -> None:
        self._buffers.clear()


MEMORY = torch.uint8
"""The type of a pool's memory, which nothing else asks for: so a count of live bytes knows it."""

_LEAST = 2**20  # bytes of a tensor that is worth it
_SLACK = 1.25  # a tensor takes memory that is larger than itself by this factor at the most
_SPARE = 1.125  # a pool holds this many times what was lent at once


class Pool:
    """Tensors that live as long as anyone looks at them, in memory that the next ones of about their size take over.

    What lies free is given up for what does not fit into it, so that a pool holds little more than was alive at once.
    """

    def __init__(self) -> None:
        self._lent = self._most_lent = 0
        self._free: list[Tensor] = []
        self._returned: deque[Tensor] = deque()  # by whichever thread drops the last tensor in it
        self._lock = threading.Lock()

    def new(self, like: Tensor, *shape: int) -> Tensor:
        """A tensor of this shape without values; small ones, and those of accelerators, come from their allocator."""
        size, device = math.prod(shape) * like.itemsize, like.device.type
        if size < _LEAST or device not in ("cpu", "meta"):
            return like.new_empty(shape)
        if device == "meta":
            return torch.empty(size, dtype=MEMORY, device=device).view(like.dtype).view(shape)
        with self._lock:
            memory = self._taken(size)
        lease = memory.numpy()
        weakref.finalize(lease, self._returned.append, memory).atexit = False
        return torch.from_numpy(lease)[:size].view(like.dtype).view(shape)

    @property
    def free(self) -> int:
        """Bytes that nobody uses."""
        return sum(map(len, [*self._free, *self._returned.copy()]))  # a copy, since another thread may return some meanwhile

    def _taken(self, size: int) -> Tensor:
        while self._returned:
            self._free.append(self._returned.popleft())
            self._lent -= len(self._free[-1])
        self._free.sort(key=lambda memory: abs(len(memory) - size))
        fitting = (place for place, memory in enumerate(self._free) if size <= len(memory) <= _SLACK * size)
        place = next(fitting, None)
        memory = ordinary(size, MEMORY) if place is None else self._free.pop(place)
        self._lent += len(memory)
        self._most_lent = max(self._most_lent, self._lent)
        while self._free and self._lent + sum(map(len, self._free)) > _SPARE * self._most_lent:
            self._free.pop(0)
        return memory


SCRATCH = Scratch()
POOL = Pool()
