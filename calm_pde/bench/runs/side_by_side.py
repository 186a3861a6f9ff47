"""Commands side by side, as many at a time as there are workers; asked to stop, they save and leave."""

from __future__ import annotations

import os
import queue
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from calm_pde.bench.measured.process import package_path
from calm_pde.train.signals import StopSignals

_LAST_LINES = 20
_LOOK = 0.1  # seconds between looks at what was asked of us


def side_by_side(
    commands: Sequence[Sequence[str]],
    workers: int,
    begun: Callable[[int], None],
    ended: Callable[[int, int, list[str]], None],
) -> int | None:
    """Run commands, `workers` of them at a time; the signal that asked us to stop, after which all have saved and left.

    Args:
        begun: takes the place of a command that begins.
        ended: takes the place of one that has ended by itself, its exit code and the last lines that it printed.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(commands)):
        waiting.put(place)
    events: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
    running: dict[int, subprocess.Popen[str]] = {}
    signals = StopSignals()

    def work() -> None:
        while signals.asked is None:
            try:
                place = waiting.get_nowait()
            except queue.Empty:
                break
            with _started(commands[place], workers) as process:
                running[place] = process
                events.put(partial(begun, place))
                said = list(deque(process.stdout or (), maxlen=_LAST_LINES))
            del running[place]
            if signals.asked is None:
                events.put(partial(ended, place, process.returncode, said))
        events.put(None)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(workers, len(commands)))]
    with signals:
        for thread in threads:
            thread.start()
        left, told = len(threads), False
        while left:
            with suppress(queue.Empty):
                event = events.get(timeout=_LOOK)
                if event is None:
                    left -= 1
                else:
                    event()
            if signals.asked is not None and not told:
                told = True
                for process in list(running.values()):
                    process.terminate()
    return signals.asked


def _started(command: Sequence[str], workers: int) -> subprocess.Popen[str]:
    """In a group of its own, so that a terminal's Ctrl-C reaches it once, through us."""
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // workers))}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env=threads | os.environ | {"PYTHONPATH": package_path(), "PYTHONUNBUFFERED": "1"},
    )
