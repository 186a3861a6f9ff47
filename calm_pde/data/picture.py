"""A picture of one trajectory: frames of its fields, whatever its dimension and mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from calm_pde.data.storage import DataFile
from calm_pde.geometry import Box
from calm_pde.trajectories import Description

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
        label = f"{field.name} [{field.unit}]" if field.unit else field.name
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
    """One scale for all frames; symmetric and diverging for signed fields."""
    shown = values[np.isfinite(values)]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 1.0)
    if low < 0 < high:
        reach = max(-low, high)
        return {"vmin": -reach, "vmax": reach, "cmap": "RdBu_r"}
    return {"vmin": low, "vmax": high if high > low else low + 1, "cmap": "viridis"}


def draw_plane(
    axes: Any, points: np.ndarray, cells: np.ndarray | None, row: np.ndarray, description: Description, norm: dict[str, Any]
) -> Any:
    """One frame of one field on its grid, its triangles or its points."""
    shape = description.grid_shape
    if shape is not None and points.shape[1] == len(shape) and description.points is not None:
        grid = row.reshape(shape)
        plane = grid if grid.ndim == 2 else grid[..., shape[-1] // 2]
        box: Box = description.box
        extent = (box.lower[0], box.upper[0], box.lower[1], box.upper[1])
        return axes.imshow(plane.T, origin="lower", extent=extent, interpolation="nearest", **norm)
    if points.shape[1] == 3:
        height = points[:, 2]
        middle = np.abs(height - np.median(height)) <= 0.05 * np.ptp(height)
        points, row, cells = points[middle], row[middle], None
    if cells is not None and cells.shape[1] == 3:
        return axes.tripcolor(points[:, 0], points[:, 1], cells, row, shading="gouraud", **norm)
    return axes.scatter(points[:, 0], points[:, 1], c=row, s=max(1.0, 3e3 / len(points)), linewidths=0, **norm)
