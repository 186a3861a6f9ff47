"""A picture of one trajectory: frames of its fields, whatever its dimension and mesh."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from calm_pde.data.storage import DataFile
from calm_pde.geometry import Box
from calm_pde.records.description import Description, Field

_FRAMES = 5


def trajectory_picture(file: DataFile, index: int = 0) -> Figure:
    """Up to five frames of every field; 1-D fields as curves over each other, 3-D ones as a slice through the middle."""
    trajectory, description = file.trajectory(index), file.description
    points = description.points if trajectory.points is None else trajectory.points
    cells = description.cells if trajectory.points is None else trajectory.cells
    if points is None:
        raise AttributeError("points")  # a data file has them in one place or the other
    chosen = np.unique(np.linspace(0, len(file.times) - 1, _FRAMES).round().astype(int))
    channels, curves = len(description.fields), points.shape[1] == 1
    columns = 1 if curves else len(chosen)
    figure = Figure(figsize=(min(16.0, 3.2 * columns + 1.5) if not curves else 8.0, 2.9 * channels + 0.6), layout="constrained")
    axes = figure.subplots(channels, columns, squeeze=False)
    for channel, field in enumerate(description.fields):
        values = trajectory.fields[chosen, :, channel]
        label = field_label(field)
        if curves:
            _curves(axes[channel, 0], points[:, 0], values, file.times[chosen], label)
            continue
        norm = limits(values)
        drawn = [
            draw_plane(place, points, cells, row, description, norm) for place, row in zip(axes[channel], values, strict=True)
        ]
        for place, time in zip(axes[channel], file.times[chosen], strict=True):
            place.set(title=f"t = {time:.4g}" if channel == 0 and not description.steady else "", xticks=[], yticks=[])
            place.set_aspect("equal")
        axes[channel, 0].set_ylabel(label)
        figure.colorbar(drawn[0], ax=axes[channel].tolist(), shrink=0.9)
    figure.suptitle(f"{file.path.name}, trajectory {index} ({trajectory.split})")
    return figure


def _curves(axes: Any, x: np.ndarray, values: np.ndarray, times: np.ndarray, label: str) -> None:
    order = np.argsort(x)
    for row, time in zip(values, times, strict=True):
        axes.plot(x[order], row[order], label=f"t = {time:.4g}", linewidth=1.2)
    axes.set(xlabel="x", ylabel=label)
    axes.legend(fontsize="small")


def limits(values: np.ndarray) -> dict[str, Any]:
    """One scale for all frames; symmetric and diverging for signed fields, viridis for others."""
    shown = values[np.isfinite(values)]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 1.0)
    if low < 0 < high:
        reach = max(-low, high)
        return {"vmin": -reach, "vmax": reach, "cmap": "RdBu_r"}
    return {"vmin": low, "vmax": high if high > low else low + 1, "cmap": "viridis"}


def field_label(field: Field) -> str:
    """The name and the unit as plain text, also where matplotlib would read mathematics between two dollar signs."""
    return str(field).replace("$", r"\$")


def draw_plane(
    axes: Any,
    points: np.ndarray,
    cells: np.ndarray | None,
    row: np.ndarray,
    description: Description,
    norm: dict[str, Any],
    area: float = 4.0,
) -> Any:
    """One frame of one field on its grid, its triangles or its points; in 3-D on the plane through the middle.

    Args:
        area: of the axes in square inches, which the markers of single points fill.
    """
    if points.shape[1] == 3:
        kept, description = middle_plane(points, description)
        points, cells, row = points[kept, :2], None, row[kept]
    shape = description.grid_shape
    if shape is not None and len(shape) == 2 and len(points) == math.prod(shape):
        return _draw_grid(axes, points.reshape(*shape, 2), row.reshape(shape), description.box, norm)
    if cells is not None and cells.shape[1] == 4:
        cells = np.concatenate([cells[:, [0, 1, 2]], cells[:, [0, 2, 3]]])
    if cells is not None and cells.shape[1] == 3:
        return axes.tripcolor(points[:, 0], points[:, 1], cells, row, shading="gouraud", rasterized=True, **norm)
    size = min(40.0, max(0.5, 72**2 * area / len(points)))
    return axes.scatter(points[:, 0], points[:, 1], c=row, s=size, linewidths=0, rasterized=True, **norm)


def middle_plane(points: np.ndarray, description: Description) -> tuple[np.ndarray, Description]:
    """Which points of a volume are near its middle height, and the description with the grid that they are, if any."""
    shape = description.grid_shape
    if shape is not None and len(shape) == 3 and len(points) == math.prod(shape):
        kept = np.arange(len(points)).reshape(shape)[:, :, shape[2] // 2]
        return kept.ravel(), replace(description, grid_shape=shape[:2])
    height = points[:, 2]
    near = np.abs(height - np.median(height)) <= 0.05 * np.ptp(height)
    return np.flatnonzero(near), replace(description, grid_shape=None)


def _draw_grid(axes: Any, points: np.ndarray, plane: np.ndarray, box: Box, norm: dict[str, Any]) -> Any:
    """As an image where the grid is even, else between its own lines."""
    x, y = points[..., 0], points[..., 1]
    if _even(x) and _even(y.T):
        extent = (box.lower[0], box.upper[0], box.lower[1], box.upper[1])
        return axes.imshow(plane.T, origin="lower", extent=extent, interpolation="nearest", **norm)
    return axes.pcolormesh(x, y, plane, shading="gouraud", rasterized=True, **norm)


def _even(coordinate: np.ndarray) -> bool:
    """Whether it grows in equal steps along the first axis, and along that one only."""
    steps, slack = np.diff(coordinate, axis=0), 1e-3 * np.ptp(coordinate) / max(1, len(coordinate) - 1)
    return bool((steps > 0).all() and np.ptp(steps) <= slack and np.abs(np.diff(coordinate, axis=1)).max(initial=0.0) <= slack)
