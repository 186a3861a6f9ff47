"""The peak memory of a piece of work in this process; a number of its own only in a process of its own."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
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
