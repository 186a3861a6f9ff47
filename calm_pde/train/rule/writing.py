"""A recipe as the YAML text that a person reads: its entries in order, with a comment behind those that the rule chose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

WIDTH = 128


def recipe_text(content: Mapping[str, Any], notes: Mapping[str, str], head: Sequence[str]) -> str:
    """
    Args:
        notes: what stands behind an entry, by its path, as `train.epochs`.
        head: comments before all entries.
    """
    return "".join(f"{line}\n" for line in [*(f"# {line}" for line in head), *_lines(content, notes, "")])


def _lines(content: Mapping[str, Any], notes: Mapping[str, str], path: str) -> Iterator[str]:
    indent = "  " * path.count(".")
    for key, value in content.items():
        note = notes.get(f"{path}{key}")
        behind = f"  # {note}" if note else ""
        if isinstance(value, Mapping) and len(value) > 1:
            yield f"{indent}{key}:{behind}"
            yield from _lines(value, notes, f"{path}{key}.")
        else:
            yield f"{indent}{key}: {_flow(value)}{behind}"


def _flow(value: Any) -> str:
    """On one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
