"""The page of a campaign: tables, bars and curves as one HTML file that runs nothing and asks for nothing."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from importlib import resources

from calm_pde.bench.runs.phases import Searched
from calm_pde.bench.runs.suite import Suite
from calm_pde.bench.shown import search_table
from calm_pde.bench.shown.drawing import COLORS, bars, curves
from calm_pde.bench.shown.table import NOTES, Row, best, columns, facts, remarks


def page(suite: Suite, table: Mapping[str, Sequence[Row]], searches: Mapping[str, Sequence[Searched]] | None = None) -> str:
    """Every name in it stands there as text, whatever it holds."""
    models = list(dict.fromkeys(row.model for rows in table.values() for row in rows))
    colors = {model: place % COLORS for place, model in enumerate(models)}
    body = [f"<h1>{_safe(suite.name)}</h1>"]
    body += [f"<p>{_safe(suite.about)}</p>"] if suite.about else []
    known = "".join(f"<li>{_safe(fact)}</li>" for fact in facts(suite, table))
    body.append(f'<ul class="facts">{known}</ul>')
    for data, rows in table.items():
        search = _search(suite, (searches or {}).get(data, ()))
        body.append(_section(suite.data[data].title or data, rows, colors, search))
    notes = "".join(_paragraph(note) for note in NOTES)
    body.append(f"<section>{notes}</section>")
    parts = {"title": _safe(suite.name), "style": _asset("page.css"), "body": "\n".join(body)}
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _asset("page.html"))


def _section(name: str, rows: Sequence[Row], colors: Mapping[str, int], search: str) -> str:
    drawn = [("Test error", bars(rows, colors)), ("Validation error against training time", curves(rows, colors))]
    cards = "".join(f'<div class="card"><h3>{title}</h3>{picture}</div>' for title, picture in drawn if picture)
    paper = " A stroke is the paper's value." if any(row.paper_error is not None for row in rows) else ""
    notes = [_paragraph(note, "failed" if " failed: " in note else "muted") for note in remarks(rows)]
    notes.append(_paragraph(f"The best error is bold.{paper}"))
    return (
        f'<section><h2>{_safe(name)}</h2><div class="pair">{cards}</div><div class="card wide">{_table(rows)}</div>'
        f"{''.join(notes)}{search}</section>"
    )


def _search(suite: Suite, found: Sequence[Searched]) -> str:
    """Its validation errors; the smallest of each model is bold."""
    if not found:
        return ""
    head, lines = search_table.cells(suite, found)
    shown = [[(text, "best" if best else "other") for text, best in line] for line in lines]
    notes = "".join(_paragraph(note) for note in search_table.notes(suite, found))
    return f'<h3>{search_table.TITLE}</h3><div class="card wide">{_table_of(head, shown)}</div>{notes}'


def _table(rows: Sequence[Row]) -> str:
    winner, told = best(rows), columns(rows)
    lines = []
    for row in rows:
        shown = "best" if winner is not None and row.error == winner.error else "other"
        lines.append([(text(row), shown if name == "test error" else "other") for name, text in told.items()])
    return _table_of(list(told), lines)


def _table_of(head: Sequence[str], lines: Sequence[Sequence[tuple[str, str]]]) -> str:
    """Of cells with their styles."""
    named = "".join(f"<th>{_safe(name)}</th>" for name in head)
    written = ["".join(f'<td class="{style}">{_safe(text)}</td>' for text, style in line) for line in lines]
    body = "".join(f"<tr>{line}</tr>" for line in written)
    return f"<table><thead><tr>{named}</tr></thead><tbody>{body}</tbody></table>"


def _paragraph(text: str, style: str = "muted") -> str:
    return f'<p class="{style}">{_safe(text)}</p>'


def _asset(name: str) -> str:
    return (resources.files("calm_pde.bench.shown") / "assets" / name).read_text(encoding="utf-8")


def _safe(text: str) -> str:
    return html.escape(text, quote=True)
