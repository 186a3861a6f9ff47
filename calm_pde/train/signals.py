"""Signals during training: what asks it to stop, and which processes hear it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

_ENDING = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Within it, SIGINT and SIGTERM are noted in `asked`, for the loop to save after its step; a second one ends at once."""

    def __init__(self) -> None:
        self.asked: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> None:
        for number in _ENDING:
            self._before[number] = signal.signal(number, self._note)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: object) -> None:
        if self.asked is not None:
            raise KeyboardInterrupt
        self.asked = number


@contextmanager
def deaf_children() -> Iterator[None]:
    """Processes that start here do not hear SIGINT and SIGTERM; a terminal sends them to all, and the loop needs its loader."""
    resource_tracker.ensure_running()  # it unblocks both signals when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
