"""Figures of what a model has learned: positions, their paths, the influence of tokens, kernel weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from calm_pde.data.picture import field_label
from calm_pde.geometry import Box, spread_out
from calm_pde.models.inside import LayerKernels
from calm_pde.records.description import Field
from calm_pde.report.findings import LayerPath
from calm_pde.report.panels import (
    AXES,
    ERROR_MAP,
    SIGNED_MAP,
    STYLE,
    WIDE,
    WIDTH,
    Mesh,
    aspect,
    cross,
    error_scale,
    largest,
    outline,
    tiled,
)
from calm_pde.report.tokens import TokenInfluence

_START, _END = "#56B4E9", "#D55E00"
_FILL = 0.8  # of a kernel's frame, by its neighbors
_HEIGHT = "viridis"


@rc_context(STYLE)
def positions_figure(points: np.ndarray, layers: Sequence[LayerPath], box: Box) -> Figure:
    """Input, output and latent positions of every layer (paper, visualization of learned positions)."""
    clouds = [("input", points), *((layer.name, layer.path[-1]) for layer in layers), ("output", points)]
    if box.dim == 1:
        return _rugs(clouds, box)
    figure, axes, area = tiled(len(clouds), aspect(box), ("x", "y"))
    shown = None
    for place, (name, cloud) in zip(axes, clouds, strict=True):
        size = float(np.clip(0.2 * 72**2 * area / len(cloud), 0.4, 14.0))
        height: dict[str, Any] = {"c": "#0072B2"}
        if box.dim == 3:
            height = {"c": cloud[:, 2], "cmap": _HEIGHT, "vmin": box.lower[2], "vmax": box.upper[2]}
        shown = place.scatter(cloud[:, 0], cloud[:, 1], s=size, linewidths=0, rasterized=len(cloud) > 3000, **height)
        place.set_title(f"{name} ({len(cloud):,})")
        _plane(place, box)
    if box.dim == 3 and shown is not None:
        figure.colorbar(shown, ax=axes, label="z", aspect=30)
    return figure


def _rugs(clouds: Sequence[tuple[str, np.ndarray]], box: Box) -> Figure:
    """1-D: a row of strokes for each cloud."""
    figure = Figure(figsize=(WIDTH, 0.4 * len(clouds) + 0.6), layout="constrained")
    axes = figure.subplots()
    for row, (_, cloud) in enumerate(clouds):
        width = float(np.clip(150 / len(cloud), 0.3, 1.5))
        axes.vlines(cloud[:, 0], row - 0.36, row + 0.36, color="#0072B2", linewidth=width)
    axes.set_yticks(range(len(clouds)), [f"{name} ({len(cloud):,})" for name, cloud in clouds])
    axes.invert_yaxis()
    axes.set(xlabel="x")
    for wall in (box.lower[0], box.upper[0]):
        axes.axvline(wall, color="0.7", linewidth=0.6, zorder=0)
    return figure


@rc_context(STYLE)
def paths_figure(layers: Sequence[LayerPath], box: Box) -> Figure:
    """The way of every query point from the start of the training to its end; 1-D against the epoch, 3-D seen along z."""
    figure, axes, area = tiled(
        len(layers), 1.3 if box.dim == 1 else aspect(box), ("epoch", "x") if box.dim == 1 else ("x", "y"), widest=2.0
    )
    for place, layer in zip(axes, layers, strict=True):
        place.set_title(layer.name + (" (fixed)" if layer.fixed else ""))
        if box.dim == 1:
            place.plot(layer.epochs, layer.path[..., 0], color="#0072B2", linewidth=0.5)
            continue
        lines = LineCollection(list(layer.path[..., :2].swapaxes(0, 1)), colors="0.55", linewidths=0.4)
        place.add_collection(lines)
        size = float(np.clip(0.08 * 72**2 * area / layer.path.shape[1], 0.6, 12.0))
        for cloud, color, label in ((layer.path[0], _START, "start"), (layer.path[-1], _END, "end")):
            place.scatter(cloud[:, 0], cloud[:, 1], s=size, color=color, linewidths=0, label=label, zorder=2)
        _plane(place, box)
    if box.dim > 1:
        legend = axes[0].get_legend_handles_labels()
        figure.legend(*legend, loc="outside lower center", ncols=2, frameon=False, markerscale=2)
    return figure


@rc_context(STYLE)
def influence_figure(influence: TokenInfluence, mesh: Mesh, channel: int, field: Field, num_tokens: int = 4) -> Figure:
    """|change| of a field for noise on a token, at once and after the last frame, for a few tokens spread over the domain.

    Args:
        mesh: where the change was looked at.
    """
    box = mesh.description.box
    unit = torch.from_numpy(np.asarray(box.to_unit(influence.positions)))
    chosen = spread_out(unit, num_tokens, tuple(box.periodic)).tolist()  # pyright: ignore[reportArgumentType]
    answers = [("decoded at once", influence.at_once), ("after the last frame", influence.last)]
    answers = [(label, values[chosen, :, channel]) for label, values in answers if values is not None]
    label = field_label(Field(name=f"|change of {field.name}|", unit=field.unit))
    ratio = 1.1 if mesh.dim == 1 else mesh.aspect
    down = ratio > WIDE  # tokens under each other
    width = (WIDTH - 1.2) / (2 if down else max(3, len(chosen)))
    height = width / ratio * (len(chosen) if down else len(answers))
    figure = Figure(figsize=(WIDTH, height + 1.0), layout="constrained" if mesh.dim == 1 else "compressed")
    shape = (len(chosen), len(answers)) if down else (len(answers), len(chosen))
    grid = figure.subplots(*shape, squeeze=False, sharex=True, sharey="row" if mesh.dim == 1 else True)
    grid = grid.T if down else grid
    for row, (name, values) in zip(grid, answers, strict=True):
        drawn = None
        for place, token, change in zip(row, chosen, values, strict=True):
            if mesh.dim == 1:
                mesh.curve(place, change, color="firebrick")
                place.axvline(influence.positions[token, 0], color="black", linewidth=0.8, linestyle=":")
                place.set_ylim(0, 1.05 * largest(values))
                continue
            drawn = mesh.draw(place, change, error_scale(values), width**2 / ratio)
            cross(place, influence.positions[token])
        row[0].set_title(name) if down else row[0].set_ylabel(f"{name}\n{label}" if drawn is None else name)
        if drawn is not None:
            bar = figure.colorbar if not down else partial(figure.colorbar, location="bottom")
            bar(drawn, ax=row.tolist(), label=label, aspect=30 if down else 18)
    for place, last, token in zip(grid[0], grid[-1], chosen, strict=True):
        place.set_ylabel(f"token {token + 1}") if down else place.set_title(f"token {token + 1}")
        last.set_xlabel("x" if mesh.dim == 1 else "")
    return figure


@rc_context(STYLE)
def kernel_figure(layer: LayerKernels, which: int = 0, absolute: bool = False) -> Figure:
    """The filters of one layer at one query, each in a frame of its own (paper, visualization of kernel weights)."""
    kernel = layer.queries[which]
    weights = np.abs(kernel.weights) if absolute else kernel.weights
    reach, top = largest(kernel.points - kernel.at) / (_FILL / 2), largest(weights)
    away = (kernel.points - kernel.at) / reach
    columns = math.ceil(math.sqrt(layer.num_filters))
    rows = math.ceil(layer.num_filters / columns)
    side = min(0.8, 4.0 / columns) if columns > 2 else 1.3
    figure = Figure(figsize=(max(4.2, columns * side + 1.3), rows * side + 0.85), layout="constrained")
    axes = figure.subplots()
    corners = np.array([(place % columns, -(place // columns)) for place in range(layer.num_filters)], dtype=float)
    if away.shape[1] == 1:
        _filter_curves(axes, corners, away[:, 0], weights / top, absolute)
    else:
        order = np.argsort(-np.abs(away[:, 2:]).sum(axis=1), kind="stable")  # what is near along z is drawn last
        spots = corners[:, None] + away[order, :2]
        size = min(0.7 * (72 * side * _FILL) ** 2 / len(away), (0.18 * 72 * side) ** 2)
        norm = {"cmap": ERROR_MAP, "vmin": 0.0} if absolute else {"cmap": SIGNED_MAP, "vmin": -top}
        colors = weights[order].T.ravel()
        drawn = axes.scatter(*spots.reshape(-1, 2).T, c=colors, s=size, linewidths=0.15, edgecolors="0.6", vmax=top, **norm)
        figure.colorbar(drawn, ax=axes, label="|weight|" if absolute else "weight", aspect=25, shrink=0.9)
    zero = -0.45 if absolute and away.shape[1] == 1 else 0.0
    axes.plot(corners[:, 0], corners[:, 1] + zero, "x", color="black", markersize=3.5, markeredgewidth=0.8)
    _frames(axes, corners)
    at = ", ".join(f"{axis} = {value:.3g}" for axis, value in zip(AXES, kernel.at, strict=False))
    scale = f"; full height is {top:.3g}" if away.shape[1] == 1 else ""
    axes.set_xlabel(f"frames around the query are {reach:.3g} wide{scale}")
    axes.set_title(f"{layer.name}: {'absolute ' if absolute else ''}kernel weights at {at}")
    return figure


def _filter_curves(axes: Axes, corners: np.ndarray, away: np.ndarray, share: np.ndarray, absolute: bool) -> None:
    """1-D: the weights of every filter against the distance, zero in the middle of the frame or at its foot."""
    order = np.argsort(away)
    height = 0.9 * share[order] - 0.45 if absolute else 0.45 * share[order]
    lines = [
        np.stack([corner[0] + away[order], corner[1] + row], axis=1) for corner, row in zip(corners, height.T, strict=True)
    ]
    axes.add_collection(LineCollection(lines, colors="#0072B2", linewidths=0.8))
    if not absolute:
        axes.hlines(corners[:, 1], corners[:, 0] - 0.5, corners[:, 0] + 0.5, color="0.8", linewidth=0.4, zorder=0)


def _frames(axes: Axes, corners: np.ndarray) -> None:
    """A thin frame and a number for every filter."""
    square = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5)])
    axes.add_collection(LineCollection([corner + square for corner in corners], colors="0.8", linewidths=0.5))
    for number, (x, y) in enumerate(corners, start=1):
        axes.text(x - 0.47, y + 0.47, str(number), fontsize=5.0, color="0.35", ha="left", va="top")
    axes.set(xlim=(-0.55, corners[:, 0].max() + 0.55), ylim=(corners[:, 1].min() - 0.55, 0.55), xticks=[], yticks=[])
    axes.set_aspect("equal")
    axes.spines[:].set_visible(False)


def _plane(axes: Axes, box: Box) -> None:
    outline(axes, box)
    axes.locator_params(nbins=3)
