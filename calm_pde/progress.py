"""Progress of long work: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_LINE_EVERY = 10.0  # seconds between lines where there is no terminal

SILENT = Console(quiet=True, force_terminal=False)
"""Where a library function speaks that nobody gave a console."""


@contextmanager
def progress(what: str, console: Console) -> Iterator[Callable[[int, int], None]]:
    """A function to be called with the number done and the total."""
    if not console.is_terminal:
        yield _lines(what, console)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines(what: str, console: Console) -> Callable[[int, int], None]:
    last = float("-inf")

    def line(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= _LINE_EVERY:
            last = now
            console.print(f"{what}: {done} of {total}", highlight=False)

    return line
