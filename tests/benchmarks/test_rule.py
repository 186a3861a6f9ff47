"""What the benchmark of the rule tells of errors."""

from __future__ import annotations

from benchmarks.rule import BAR, SETS, Found, table
from calm_pde.train.config import recipe_names


def test_the_bar_is_drawn():
    rows = {"a": (Found(0.1, 10), Found(BAR * 0.1, 20)), "b": (Found(0.1, 10), Found(0.116, 20))}
    passed, failed = table(rows, 3.0)[-2:]
    assert passed == "| a | 0.1000 | 10 | 0.1150 | 20 | 1.150 | yes |"
    assert failed.endswith("| 1.160 | no |")


def test_every_set_has_a_recipe_by_hand():
    assert {f"{name}_plus_small" for name in SETS} <= set(recipe_names())
    assert len(SETS) == 9
