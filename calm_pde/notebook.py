"""How objects show themselves in a notebook."""

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
