"""How the figures for papers look: one style, scales of color, a mesh with a field on it, and sizes that fit a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from calm_pde.data.picture import draw_plane, middle_plane
from calm_pde.geometry import Box
from calm_pde.records.description import Description

WIDTH = 7.2
"""Inches: a page of text, so that figures are set at their own size and their letters stay as large as they are here."""

WIDE = 1.7
"""From this aspect on, frames stand under each other."""

STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "legend.fontsize": 7.0,
    "figure.titlesize": 9.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.1,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}
ERROR_MAP = "Reds"
SIGNED_MAP = "RdBu_r"
AXES = ("x", "y", "z")
_INK: dict[str, Any] = {
    "color": "black",
    "marker": "x",
    "linestyle": "none",
    "markersize": 5.0,
    "markeredgewidth": 1.1,
    "clip_on": False,
}


@dataclass(frozen=True)
class Mesh:
    """Where values stand, physical.

    Args:
        points: (point, dim).
        cells: (triangle, 3), where known.
        description: of the data set: its box, and the grid where the points are one.
    """

    points: np.ndarray
    cells: np.ndarray | None
    description: Description

    @property
    def dim(self) -> int:
        return self.points.shape[1]

    @property
    def aspect(self) -> float:
        return aspect(self.description.box)

    def plane(self) -> tuple[np.ndarray, Mesh]:
        """Which points a figure draws, and the mesh of them: all of a line or a plane, of a volume its middle plane."""
        if self.dim < 3:
            return np.arange(len(self.points)), self
        kept, description = middle_plane(self.points, self.description)
        return kept, Mesh(self.points[kept, :2], None, description)

    def draw(self, axes: Axes, row: np.ndarray, norm: dict[str, Any], area: float) -> Any:
        """Values (point,) as a picture of the plane, without ticks."""
        drawn = draw_plane(axes, self.points, self.cells, row, self.description, norm, area)
        axes.set(xticks=[], yticks=[])
        whole_box(axes, self.description.box)
        return drawn

    def curve(self, axes: Axes, row: np.ndarray, **look: Any) -> Any:
        """Values (point,) along the line."""
        order = np.argsort(self.points[:, 0])
        return axes.plot(self.points[order, 0], row[order], **look)[0]


def aspect(box: Box) -> float:
    """Width over height of the box's first two axes."""
    sides = np.subtract(box.upper, box.lower)
    return float(sides[0] / sides[1]) if box.dim > 1 else 1.0


def whole_box(axes: Axes, box: Box) -> None:
    """The first two axes of the box to scale."""
    axes.set(xlim=(box.lower[0], box.upper[0]), ylim=(box.lower[1], box.upper[1]))
    axes.set_aspect("equal")


def outline(axes: Axes, box: Box) -> None:
    """The edge of the box, thin; what lies outside of it is shown too."""
    if box.dim > 1:
        sides = np.subtract(box.upper, box.lower)[:2]
        axes.add_patch(Rectangle(box.lower[:2], *sides, fill=False, edgecolor="0.7", linewidth=0.6, zorder=0))  # pyright: ignore
        axes.set_aspect("equal")


def cross(axes: Axes, at: Sequence[float] | np.ndarray) -> None:
    """The black cross at a query or a token."""
    axes.plot([at[0]], [at[1]], **_INK)[0].set_in_layout(False)


def error_scale(values: np.ndarray) -> dict[str, Any]:
    """From 0 to the largest finite value, in one hue."""
    return {"vmin": 0.0, "vmax": largest(values), "cmap": ERROR_MAP}


def largest(values: np.ndarray) -> float:
    """The largest finite size, 1 where there is none above 0."""
    found = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return float(found) or 1.0


def tiled(
    count: int, ratio: float, labels: tuple[str, str], widest: float = 1.75, shared: bool = True
) -> tuple[Figure, list[Axes], float]:
    """A figure of panels with width/height = `ratio`, its axes, and the area of each in square inches.

    Args:
        labels: of the axes, which the outer panels bear.
        widest: inches of a square panel; a wide one may be wider.
        shared: whether the panels have the vertical axis in common, as they have the other.
    """
    columns = max(1, math.floor(WIDTH / min(widest * max(1.0, ratio**0.35), WIDTH / 2)))
    columns = math.ceil(count / math.ceil(count / columns))
    rows = math.ceil(count / columns)
    width = min(0.85 * WIDTH / columns, 3.2)
    figure = Figure(figsize=(WIDTH, rows * (width / ratio + 0.4) + 0.5), layout="compressed")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=shared).ravel()
    for place, panel in enumerate(grid):
        if place >= count:
            panel.remove()
        elif place + columns >= count:
            panel.set_xlabel(labels[0])
            panel.tick_params(labelbottom=True)
    for panel in grid[:count:columns]:
        panel.set_ylabel(labels[1])
    return figure, list(grid[:count]), width**2 / ratio
