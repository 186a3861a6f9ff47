"""Progress of long work: a bar on a terminal or in a notebook, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_LINE_EVERY = 10.0  # seconds between lines where there is no terminal

SILENT = Console(quiet=True, force_terminal=False, force_jupyter=False)

Given = ParamSpec("Given")
Result = TypeVar("Result")


def console_of(given: Console | None) -> Console:
    """Where a library function speaks: on the console it is given; without one below the cell of a notebook, or nowhere."""
    if given is not None:
        return given
    here = Console()
    return here if here.is_jupyter else SILENT


def draws_bars(console: Console) -> bool:
    """Whether a console draws over what it has drawn: a terminal, or a notebook that has the package ipywidgets."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)


@contextmanager
def progress(what: str, console: Console) -> Iterator[Callable[[int, int], None]]:
    """A function to be called with the number done and the total."""
    if not draws_bars(console):
        yield _lines(what, console)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
        bar.refresh()  # a notebook is not shown the end otherwise


def barred(what: str) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """A library function that takes `progress`, a function to be called, shows a bar where a notebook gives it none."""

    def decorated(function: Callable[Given, Result]) -> Callable[Given, Result]:
        @wraps(function)
        def call(*arguments: Given.args, **options: Given.kwargs) -> Result:
            console = console_of(None)
            if console is SILENT or options.get("progress") is not None:
                return function(*arguments, **options)
            with progress(what, console) as show:
                shown: dict[str, Any] = {**options, "progress": show}
                return function(*arguments, **shown)  # pyright: ignore[reportCallIssue]

        return call

    return decorated


def _lines(what: str, console: Console) -> Callable[[int, int], None]:
    last = float("-inf")

    def line(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if done == total or now - last >= _LINE_EVERY:
            last = now
            console.print(f"{what}: {done} of {total}", highlight=False)

    return line
