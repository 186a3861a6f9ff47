"""How the house is kept: small folders, functions that fit on a screen, and doors instead of windows."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_MODULES, MOST_LINES = 15, 60
OF_NAMED_TUPLES = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}  # public, whatever their underscore says
OF_NOTEBOOKS = {"_repr_html_"}  # likewise


def files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room(path: Path) -> str:
    """The folder of the package that a module belongs to, or that a test is about; a module outside of all is its own."""
    first = path.relative_to(ROOT).parts[1]
    return first.removeprefix("test_").removesuffix(".py")


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in {*OF_NAMED_TUPLES, *OF_NOTEBOOKS, "_"}


def defined(path: Path) -> set[str]:
    """Private names of functions, classes, variables and attributes that a module makes."""
    found = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and own(node.value):
            found.add(node.attr)
    return {name for name in found if private(name)}


@cache
def owners() -> dict[str, set[str]]:
    """The rooms of the package that make a private name."""
    found = defaultdict(set)
    for path in files("calm_pde"):
        for name in defined(path):
            found[name].add(room(path))
    return dict(found)


def own(value: ast.expr) -> bool:
    """Whether an object is the one whose method this is."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def touched(path: Path) -> Iterator[tuple[int, str, str | None]]:
    """Private names of others that a module reads or sets: line, name, and the module that it is imported from."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.lineno, alias.name, node.module) for alias in node.names if private(alias.name))
        elif isinstance(node, ast.Attribute) and private(node.attr) and not own(node.value):
            yield node.lineno, node.attr, None
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("setattr", "getattr", "delattr", "hasattr")):
            words = [part.value for part in node.args[:2] if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            names = [word.rpartition(".")[2] for word in words]
            yield from ((node.lineno, name, None) for name in names if private(name))


def trespasses(path: Path) -> Iterator[str]:
    """What a module touches of another room's private things."""
    here = room(path) if path.relative_to(ROOT).parts[0] != "benchmarks" else ""
    for line, name, module in touched(path):
        if module is not None:
            package, _, rest = module.partition(".")
            foreign = package == "tests" or (package == "calm_pde" and rest.partition(".")[0] != here)
        else:
            foreign = name in owners() and here not in owners()[name] and name not in defined(path)
        if foreign:
            yield f"{path.relative_to(ROOT)}:{line}: {name}"


def test_no_folder_lists_more_than_fifteen_modules():
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in files("calm_pde") if path.name != "__init__.py")
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_no_function_is_longer_than_a_screen():
    long = []
    for path in files("calm_pde", "tests", "benchmarks"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                long += [f"{path.relative_to(ROOT)}:{node.lineno} {node.name} ({length})"] * (length > MOST_LINES)
    assert long == []


def test_private_names_stay_in_their_room():
    """Modules of the package, their tests and the benchmarks come in by the doors that a room shows."""
    assert [words for path in files("calm_pde", "tests", "benchmarks") for words in trespasses(path)] == []


def test_trespassers_are_seen(tmp_path, monkeypatch):
    """A guard that saw nothing would pass for ever."""
    for name, text in {
        "calm_pde/train/loop.py": "class Trainer:\n    def _step(self):\n        self._begun = 0\n",
        "calm_pde/bench/clock.py": "def seconds(trainer):\n    return trainer._begun\n",
        "calm_pde/train/show.py": "def shown(trainer):\n    return trainer._begun\n",
        "tests/bench/test_clock.py": "def test(monkeypatch, run):\n    monkeypatch.setattr(run, '_step', None)\n",
        "tests/train/test_loop.py": "from calm_pde.train.loop import _x\nfrom calm_pde.data.y import _z\nrun._step\n",
        "benchmarks/a.py": "import torch\ntorch._C\nrun._step()\nx._replace()\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("tests.test_house.ROOT", tmp_path)
    monkeypatch.setattr("tests.test_house.owners", owners.__wrapped__)
    assert [words for path in files("calm_pde", "tests", "benchmarks") for words in trespasses(path)] == [
        "benchmarks/a.py:3: _step",
        "calm_pde/bench/clock.py:2: _begun",
        "tests/bench/test_clock.py:2: _step",
        "tests/train/test_loop.py:2: _z",
    ]
