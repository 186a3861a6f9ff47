"""Figures of fields: truth, prediction and error of single frames, over space and time, and the mean error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from calm_pde.data.picture import field_label, limits
from calm_pde.records.description import Field
from calm_pde.report.panels import STYLE, WIDE, WIDTH, Mesh, error_scale, largest, tiled

SHOWN = ("truth", "prediction", "absolute error")
_SPREAD = 5


@dataclass(frozen=True)
class DrawnSample:
    """One trajectory and what the surrogate makes of it, physical.

    Args:
        name: for example `trajectory 187 (worst)`.
        times: (time,); one entry where there is no time.
        truth, prediction: (time, point, channel); in the given frames the prediction is the reconstructed state.
        frame_errors: (channel, time), relative L2 over the whole mesh, of which a volume's plane is a part.
        given: how many frames the surrogate was given.
    """

    name: str
    fields: tuple[Field, ...]
    mesh: Mesh
    times: np.ndarray
    truth: np.ndarray
    prediction: np.ndarray
    frame_errors: np.ndarray
    given: int = 0

    @property
    def steady(self) -> bool:
        return len(self.times) == 1

    def shown(self, channel: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Truth, prediction and absolute error of one field, (time, point) each."""
        truth, prediction = self.truth[..., channel], self.prediction[..., channel]
        return truth, prediction, np.abs(prediction - truth)

    def scales(self, channel: int, frames: Sequence[int] | slice = slice(None)) -> tuple[dict[str, Any], ...]:
        """The colors of the three: truth and prediction share the truth's."""
        truth, _, error = self.shown(channel)
        shared = limits(truth[frames])
        return shared, shared, error_scale(error[frames])


def first_frames(sample: DrawnSample, count: int = 11) -> list[int]:
    return list(range(min(count, len(sample.times))))


def spread_frames(sample: DrawnSample, count: int = _SPREAD) -> list[int]:
    """From the first predicted frame to the last."""
    first = min(sample.given, len(sample.times) - 1)
    return np.unique(np.linspace(first, len(sample.times) - 1, count).round().astype(int)).tolist()


@rc_context(STYLE)
def frames_figure(sample: DrawnSample, channel: int, frames: Sequence[int]) -> Figure:
    """Truth, prediction and absolute error of one field at some frames; 1-D as curves, 3-D on the middle plane."""
    draw = _curves if sample.mesh.dim == 1 else _planes
    figure = draw(sample, channel, list(frames))
    where = ", middle plane" if sample.mesh.description.box.dim == 3 else ""
    figure.suptitle(f"{field_label(sample.fields[channel])}, {sample.name}{where}")
    return figure


def _planes(sample: DrawnSample, channel: int, frames: list[int]) -> Figure:
    """Frames from left to right, or from top to bottom where the domain is wide or there is only one."""
    ratio, count = sample.mesh.aspect, len(frames)
    down = ratio > WIDE or count <= 2
    width = (WIDTH - 1.2) / 3 if down else (WIDTH - 1.3) / count
    height = width / ratio
    size = (WIDTH, count * (height + 0.06) + 1.2 if down else 3 * (height + 0.08) + 1.0)
    figure = Figure(figsize=size, layout="compressed")
    grid = figure.subplots(count, 3, squeeze=False).T if down else figure.subplots(3, count, squeeze=False)
    for row, label, values, norm in zip(grid, SHOWN, sample.shown(channel), sample.scales(channel, frames), strict=True):
        drawn = [sample.mesh.draw(place, values[frame], norm, width * height) for place, frame in zip(row, frames, strict=True)]
        row[0].set_title(label) if down else row[0].set_ylabel(label.replace(" ", "\n"))
        if label != "truth":
            rows = grid[:2] if label == "prediction" else row
            name = field_label(sample.fields[channel]) if label == "prediction" else error_label(sample.fields[channel])
            place = {"location": "bottom", "shrink": 0.9, "aspect": 30} if down else {"shrink": 0.9, "aspect": 18}
            figure.colorbar(drawn[-1], ax=rows.ravel().tolist(), label=name, **place)
    for place, below, frame in zip(grid[0], grid[2], frames, strict=True):
        if not sample.steady:
            heading = f"t = {sample.times[frame]:.4g}" + ("\ngiven" if frame < sample.given else "")
            place.set_ylabel(heading) if down else place.set_title(heading)
        below.set_xlabel(f"rel. L2\n{sample.frame_errors[channel, frame]:.3g}", fontsize=6.5) if not down else None
        if down:
            below.yaxis.set_label_position("right")
            below.set_ylabel(f"rel. L2\n{sample.frame_errors[channel, frame]:.3g}", fontsize=6.5)
    return figure


def _curves(sample: DrawnSample, channel: int, frames: list[int]) -> Figure:
    """One panel for each of the three, the frames over each other and colored by their time."""
    figure = Figure(figsize=(WIDTH, 2.3), layout="constrained")
    axes = figure.subplots(1, 3)
    norm = Normalize(sample.times[frames[0]], sample.times[frames[-1]] if len(frames) > 1 else sample.times[frames[0]] + 1)
    colors = colormaps["viridis"]
    for place, label, values in zip(axes, SHOWN, sample.shown(channel), strict=True):
        for frame in frames:
            sample.mesh.curve(place, values[frame], color=colors(norm(sample.times[frame])), linewidth=0.9)
        place.set(title=label, xlabel="x", ylabel=field_label(sample.fields[channel]))
        place.margins(x=0)
    axes[1].set_ylabel("")
    axes[1].sharey(axes[0])
    axes[2].set(ylabel=error_label(sample.fields[channel]))
    axes[2].set_ylim(bottom=0)
    if not sample.steady:
        figure.colorbar(ScalarMappable(norm, "viridis"), ax=axes.tolist(), label="time t", aspect=18)
    return figure


@rc_context(STYLE)
def space_time_figure(sample: DrawnSample) -> Figure:
    """Every field of a 1-D problem over space and time: truth, prediction and absolute error."""
    order = np.argsort(sample.mesh.points[:, 0])
    x = sample.mesh.points[order, 0]
    figure = Figure(figsize=(WIDTH, 2.2 * len(sample.fields) + 0.3), layout="constrained")
    grid = figure.subplots(len(sample.fields), 3, squeeze=False, sharex=True, sharey=True)
    for channel, row in enumerate(grid):
        drawn: list[Any] = []
        for place, label, values, norm in zip(row, SHOWN, sample.shown(channel), sample.scales(channel), strict=True):
            drawn.append(place.pcolormesh(x, sample.times, values[:, order], shading="nearest", rasterized=True, **norm))
            place.set_title(label if channel == 0 else "")
        figure.colorbar(drawn[1], ax=row[:2].tolist(), label=field_label(sample.fields[channel]), aspect=18)
        figure.colorbar(drawn[2], ax=row[2], label=error_label(sample.fields[channel]), aspect=18)
        row[0].set_ylabel("time t")
        _mark_given(row[1:], sample)
    for place in grid[-1]:
        place.set_xlabel("x")
    figure.suptitle(sample.name)
    return figure


def _mark_given(row: Iterable[Axes], sample: DrawnSample) -> None:
    """A line between what was given and what was predicted."""
    if 0 < sample.given < len(sample.times):
        for place in row:
            place.axhline(sample.times[sample.given - 1 : sample.given + 1].mean(), color="0.4", linewidth=0.6, linestyle=":")


@rc_context(STYLE)
def error_map_figure(mesh: Mesh, errors: np.ndarray, fields: Sequence[Field]) -> Figure:
    """The mean over samples and frames of |û − u| at every point, (point, channel)."""
    line = mesh.dim == 1
    figure, axes, area = tiled(len(fields), 1.6 if line else mesh.aspect, ("x", "" if line else "y"), 2.6, shared=not line)
    for channel, (place, field) in enumerate(zip(axes, fields, strict=True)):
        values = errors[:, channel]
        if line:
            mesh.curve(place, values, color="firebrick")
            place.set(ylabel=error_label(field), ylim=(0, 1.05 * largest(values)))
        else:
            drawn = mesh.draw(place, values, error_scale(values), area)
            figure.colorbar(drawn, ax=place, label=error_label(field), aspect=18)
        place.set_title(field_label(Field(name=field.name)))
    figure.suptitle("mean absolute error over samples and frames")
    return figure


def error_label(field: Field) -> str:
    """|error| [unit]."""
    return field_label(Field(name="|error|", unit=field.unit))
