"""Progress where it can be drawn: a bar in a notebook that has ipywidgets, lines in one that has not, nothing in a script."""

from __future__ import annotations

import builtins
import io
import re
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import calm_pde as cp
from calm_pde.progress import SILENT, barred, console_of, draws_bars, progress


class ZMQInteractiveShell:
    """What a kernel calls its shell, by which rich knows a notebook."""


class Output:
    """The widget of ipywidgets that rich draws a bar in: what is displayed inside of it replaces what was."""

    def __init__(self, displayed: list[Any]) -> None:
        self.displayed, self.cleared = displayed, 0

    def __enter__(self) -> Output:
        self.displayed.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def clear_output(self, wait: bool = False) -> None:
        self.cleared += 1


@pytest.fixture
def notebook(monkeypatch) -> list[Any]:
    """A kernel with ipywidgets; what is displayed, in its order."""
    displayed: list[Any] = []
    monkeypatch.setattr(builtins, "get_ipython", ZMQInteractiveShell, raising=False)
    for name, entries in {
        "IPython": {},
        "IPython.display": {"display": displayed.append},
        "ipywidgets": {"Output": lambda: Output(displayed)},
    }.items():
        module = ModuleType(name)
        module.__spec__ = type(sys.__spec__)(name, None)
        vars(module).update(entries)
        monkeypatch.setitem(sys.modules, name, module)
    return displayed


def shown(displayed: list[Any]) -> str:
    """What stands in the displays, without colors."""
    texts = [str(vars(entry).get("text", "")) for entry in displayed if not isinstance(entry, Output)]
    return re.sub(r"\x1b\[[0-9;]*m", "", "".join(texts))


def test_a_notebook_draws_a_bar(notebook):
    console = console_of(None)
    assert console.is_jupyter
    assert draws_bars(console)
    with progress("evaluate", console) as show:
        show(1, 2)
        show(2, 2)
    widgets = [entry for entry in notebook if isinstance(entry, Output)]
    assert len(set(widgets)) == 1
    assert widgets[0].cleared > 1
    assert "evaluate" in shown(notebook)
    assert "2/2" in shown(notebook)


def test_without_widgets_a_notebook_gets_lines(notebook, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    console = console_of(None)
    assert not draws_bars(console)
    with progress("evaluate", console) as show:
        show(2, 2)
    assert "evaluate: 2 of 2" in shown(notebook)


def test_library_functions_show_themselves_in_a_notebook(notebook, tmp_path):
    """Each says what it does, and a function that is given one to call shows nothing of its own."""
    grid = np.arange(16) / 16
    cp.from_arrays(grid, np.random.default_rng(0).random((10, 3, 16, 1)), out=tmp_path / "a.h5")
    np.savez(tmp_path / "a.npz", points=grid, fields=np.zeros((10, 3, 16, 1)))
    called: list[tuple[int, int]] = []
    cp.convert("arrays", tmp_path / "quiet.h5", path=tmp_path / "a.npz", progress=lambda *done: called.append(done))
    assert shown(notebook) == ""
    assert called[-1] == (10, 10)
    cp.convert("arrays", tmp_path / "b.h5", path=tmp_path / "a.npz")
    assert "convert" in shown(notebook)
    assert "10/10" in shown(notebook)


def test_a_script_says_nothing():
    assert console_of(None) is SILENT
    told = Console(file=io.StringIO())
    assert console_of(told) is told
    assert barred("work")(lambda progress=None: progress)() is None


@pytest.mark.parametrize("function", [cp.convert, cp.evaluate, cp.generate, cp.predict])
def test_functions_keep_their_name_and_words(function):
    assert function.__name__ in cp.__all__
    assert function.__doc__.split("\n")[0].endswith(".")
