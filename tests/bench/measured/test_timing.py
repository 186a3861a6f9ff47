"""Programs take turns, after one call each that is not counted."""

from __future__ import annotations

from calm_pde.bench.measured.timing import interleaved


def test_turns_and_counts():
    called, told = [], []
    times = interleaved({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, 3, lambda *now: told.append(now))
    assert called == ["a", "b"] * 4
    assert {name: len(found) for name, found in times.items()} == {"a": 3, "b": 3}
    assert told[-1] == (8, 8)
