"""How objects show themselves, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """A title over rows of names and what they are; rows that are empty are left out."""
    told = [(name, str(value)) for name, value in rows.items() if str(value)]
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in told
    )
    return f'<table><caption style="text-align:left"><b>{escape(title)}</b></caption>{cells}</table>'


def brief(record: object) -> str:
    """A record in one line: arrays by their shapes, without what there is not."""
    parts = [(name, value) for name, value in vars(record).items() if value is not None]
    words = [f"{name} {_shape_or_self(value)}" for name, value in parts]
    return f"{type(record).__name__}({', '.join(words)})"


def _shape_or_self(value: object) -> object:
    shape = getattr(value, "shape", None)
    return value if shape is None else tuple(shape)
