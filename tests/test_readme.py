"""The README's example runs as it is written, and its numbers are true."""

from __future__ import annotations

import re
from pathlib import Path

import calm_pde as cp

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_ten_lines_run():
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    scope: dict = {}
    exec(example.replace("randn(8,", "randn(2,"), scope)  # a smaller batch: the same code in a quarter of the time
    assert scope["u"].shape == (2, 19, 4096, 1)
    assert scope["z"].shape == (2, 16, 128)
    assert scope["v"].shape == (2, 4, 100, 1)


def test_the_table_of_presets_is_true():
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d,]+) \|$", README, flags=re.MULTILINE)
    assert len(rows) == 7
    for name, count in rows:
        model = cp.CalmConfig.preset(name).build()
        assert sum(parameter.numel() for parameter in model.parameters()) == int(count.replace(",", ""))


def test_the_tree_is_true():
    (tree,) = re.findall(r"## The tree\n\n```\n(.*?)```", README, flags=re.DOTALL)
    root = Path(cp.__file__).parent
    for name in re.findall(r"^  (\w+)[/.]", tree, flags=re.MULTILINE):
        assert (root / name).is_dir() or (root / f"{name}.py").is_file(), name
