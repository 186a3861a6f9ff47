"""Bars and curves of a table as SVG, colored by the page that they stand in."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from calm_pde.bench.shown.table import Row, error_text

Number = int | float

COLORS = 8
_WIDTH, _ROW, _NAME, _VALUE = 640, 30, 150, 120
_LEFT, _TOP, _HEIGHT, _BOTTOM = 58, 12, 300, 46
_LONGEST_NAME = 20
_RIM = 2.0  # the highest error that curves show, unless one ends above


def bars(rows: Sequence[Row], colors: Mapping[str, int]) -> str:
    """Test errors as bars from 0, with the deviation over seeds; a stroke is the paper's value."""
    known = [row.error + (row.spread or 0) for row in rows if row.error is not None and math.isfinite(row.error)]
    highest = max([*known, *(row.paper_error for row in rows if row.paper_error is not None)], default=1.0) or 1.0
    span = _WIDTH - _NAME - _VALUE
    drawn = []
    for place, row in enumerate(rows):
        middle = place * _ROW + _ROW / 2
        drawn.append(_text(_NAME - 8, middle + 4.5, _short(row.title), "end", title=row.title))
        end = _NAME
        if row.error is not None and math.isfinite(row.error):
            end = _NAME + span * row.error / highest
            where = f'x="{_NAME}" y="{middle - 9:.1f}" width="{end - _NAME:.1f}" height="18" rx="2"'
            drawn.append(f'<rect class="bar s{colors[row.model]}" {where}/>')
            if row.spread:
                low, high = (_NAME + span * max(0.0, row.error + sign * row.spread) / highest for sign in (-1, 1))
                drawn.append(f'<path class="spread" d="M{low:.1f} {middle:.1f}H{high:.1f}"/>')
                end = high
        if row.paper_error is not None:
            at = _NAME + span * row.paper_error / highest
            drawn.append(f'<path class="paper" d="M{at:.1f} {middle - 12:.1f}v24"/>')
            end = max(end, at)
        words = error_text(row) if row.ours else f"{row.paper} (paper)"
        drawn.append(_text(end + 8, middle + 4.5, words.split(",")[0]))
    drawn.append(f'<path class="axis" d="M{_NAME} 0V{len(rows) * _ROW}"/>')
    return _svg(_WIDTH, len(rows) * _ROW, "Test errors of all models", drawn)


def curves(rows: Sequence[Row], colors: Mapping[str, int]) -> str:
    """Validation error against training time, both axes logarithmic; a thin line per seed.

    Errors far above 1, of rollouts that diverged early in a training, are drawn at the upper rim.
    """
    shown = [(row, curve) for row in rows for result in row.results if (curve := _positive(result.curve))]
    if not shown:
        return ""
    times, errors = zip(*(point for _, curve in shown for point in curve), strict=True)
    top = max(_RIM, *(2 * curve[-1][1] for _, curve in shown))
    horizontal, vertical = Axis(min(times), max(times)), Axis(min(errors), min(max(errors), top))
    right, bottom = _WIDTH - 14, _TOP + _HEIGHT
    drawn = []
    for tick in vertical.ticks():
        y = bottom - _HEIGHT * vertical.place(tick)
        drawn.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        drawn.append(_text(_LEFT - 6, y + 4.5, f"{tick:g}", "end", soft=True))
    for tick in horizontal.ticks():
        x = _LEFT + (right - _LEFT) * horizontal.place(tick)
        drawn.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        drawn.append(_text(x, bottom + 18, f"{tick:g}", "middle", soft=True))
    drawn.append(_text((_LEFT + right) / 2, bottom + 38, "seconds of training", "middle", soft=True))
    for row, curve in shown:
        series = f"s{colors[row.model]}"
        xs = [_LEFT + (right - _LEFT) * horizontal.place(time) for time, _ in curve]
        ys = [bottom - _HEIGHT * vertical.place(min(error, top)) for _, error in curve]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True))
        drawn.append(f'<path class="line {series}" d="M{path}"/>')
        name = f"<title>{_safe(row.title)}</title>"
        drawn.append(f'<circle class="dot {series}" cx="{xs[-1]:.1f}" cy="{ys[-1]:.1f}" r="3.5">{name}</circle>')
    height = bottom + _BOTTOM
    legend = list({row.model: row for row, _ in shown}.values())
    for place, row in enumerate(legend):
        x, y = _LEFT + (place % 4) * 145, height + 18 + (place // 4) * 22
        drawn.append(f'<path class="line s{colors[row.model]}" d="M{x} {y - 4}h20"/>')
        drawn.append(_text(x + 26, y, _short(row.title, 15), title=row.title))
    return _svg(_WIDTH, height + 22 * (1 + (len(legend) - 1) // 4) + 6, "Validation error against training time", drawn)


class Axis:
    """A logarithmic axis from a little below the lowest to a little above the highest value."""

    def __init__(self, low: Number, high: Number) -> None:
        self.low, self.high = math.log10(low) - 0.03, math.log10(high) + 0.03

    def place(self, value: Number) -> float:
        """Between 0 and 1."""
        return (math.log10(value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """1, 2 and 5 times powers of ten; powers alone where there are many."""
        first, last = math.floor(self.low), math.ceil(self.high)
        steps = (1, 2, 5) if self.high - self.low < 2.5 else (1,)
        found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        return [value for value in found if self.low <= math.log10(value) <= self.high]


def _positive(curve: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(time, error) for time, error in curve if time > 0 and error > 0 and math.isfinite(error)]


def _svg(width: Number, height: Number, label: str, drawn: list[str]) -> str:
    inside = "".join(drawn)
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{_safe(label)}">{inside}</svg>'


def _text(x: Number, y: Number, words: str, anchor: str = "start", *, soft: bool = False, title: str = "") -> str:
    style = ' class="soft"' if soft else ""
    more = f"<title>{_safe(title)}</title>" if title and title != words else ""
    return f'<text{style} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_safe(words)}{more}</text>'


def _short(name: str, most: int = _LONGEST_NAME) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _safe(text: str) -> str:
    return html.escape(text, quote=True)
