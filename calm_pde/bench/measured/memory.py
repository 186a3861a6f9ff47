"""The peak memory of a piece of work in this process; a number of its own only in a process of its own."""

from __future__ import annotations

import ctypes
import gc
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_FREE = Path("/proc/meminfo")
_RESET_PEAK = "5"


def status(name: str) -> int:
    """VmHWM or VmRSS of this process in bytes."""
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return 1024 * int(line.split()[1])


def peak_of(work: Callable[[], Any]) -> int | None:
    """Bytes that the work takes at the most beyond what is there before it; None where the system does not tell."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    if not _STATUS.exists():
        work()
        return None
    give_back()
    with suppress(OSError):  # without it the peak of what came before counts too, where that was higher
        _CLEAR.write_text(_RESET_PEAK)
    before = status("VmRSS")
    work()
    return max(0, status("VmHWM") - before)


def give_back() -> None:
    """Memory that the C library holds though nobody uses it, back to the system."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> str:
    """Let the C library keep freed memory, since mapping it anew is slow on virtual machines; what was done, in words."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return "the allocator as it is"
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3
    done = mallopt(mmap_threshold, 2**31 - 1) and mallopt(trim_threshold, -1) and mallopt(top_pad, 64 * 2**20)
    return "freed memory kept by the allocator" if done else "the allocator as it is"


def limit_memory(share: float) -> int | None:
    """Let this process take no more than a share of the memory that is free now; beyond it allocations fail, and nothing else.

    Returns the limit in bytes, None where the system does not tell what is free.
    """
    if not _FREE.exists():
        return None
    line = next(line for line in _FREE.read_text().splitlines() if line.startswith("MemAvailable"))
    most = int(share * 1024 * int(line.split()[1]))
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    return most
