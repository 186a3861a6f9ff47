"""A moving picture of truth, prediction and error over time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.animation import FFMpegWriter
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from PIL import Image

from calm_pde.data.picture import field_label
from calm_pde.errors import InputError
from calm_pde.report.field_figures import SHOWN, DrawnSample, error_label
from calm_pde.report.panels import STYLE, WIDTH, Mesh

_DPI = 120


def write_animation(
    sample: DrawnSample, path: Path, *, seconds: float = 6.0, progress: Callable[[int, int], None] | None = None
) -> list[Path]:
    """Truth | prediction | error of every field as a GIF at `path`, and as an mp4 beside it where ffmpeg is installed.

    Args:
        seconds: how long it takes, as far as 2 to 20 frames per second allow.
    """
    if sample.steady:
        raise InputError("sample", expected="at least two times", got="one", fix="A steady field does not move.")
    count = len(sample.times)
    rate = float(np.clip(count / seconds, 2, 20))
    gif, mp4 = path.with_suffix(".gif"), path.with_suffix(".mp4")
    video = FFMpegWriter(fps=rate, codec="h264", extra_args=["-pix_fmt", "yuv420p"]) if FFMpegWriter.isAvailable() else None  # pyright: ignore[reportArgumentType]
    with rc_context(STYLE):
        canvas, show = _moving(sample)
        pictures = []
        with nullcontext() if video is None else video.saving(canvas.figure, str(mp4), _DPI):
            for frame in range(count):
                show(frame)
                canvas.draw()
                pictures.append(_indexed(np.asarray(canvas.buffer_rgba())))
                if video is not None:
                    video.grab_frame()
                if progress is not None:
                    progress(frame + 1, count)
    pictures[0].save(gif, save_all=True, append_images=pictures[1:], duration=round(1000 / rate), loop=0)
    return [gif] if video is None else [gif, mp4]


def _indexed(pixels: np.ndarray) -> Image.Image:
    """In 256 colors that cover all that is there, so that color bars stay smooth."""
    return Image.fromarray(pixels).convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE)


def _moving(sample: DrawnSample) -> tuple[FigureCanvasAgg, Callable[[int], None]]:
    """The picture of the first frame, and what turns it into that of another one."""
    ratio = 1.5 if sample.mesh.dim == 1 else sample.mesh.aspect
    width = (WIDTH - 1.5) / 3
    line = sample.mesh.dim == 1
    height = len(sample.fields) * (width / ratio + (0.3 if line else 0.12)) + 0.6
    even = round(height * _DPI / 2) * 2 / _DPI  # pixels, as mp4 wants them
    figure = Figure(figsize=(WIDTH, even), dpi=_DPI, layout="constrained" if line else "compressed")
    canvas = FigureCanvasAgg(figure)
    grid = figure.subplots(len(sample.fields), 3, squeeze=False)
    draws: list[Callable[[int], Any]] = []
    for channel, row in enumerate(grid):
        names = field_label(sample.fields[channel]), error_label(sample.fields[channel])
        for place, label, values, norm in zip(row, SHOWN, sample.shown(channel), sample.scales(channel), strict=True):
            place.set_title(label if channel == 0 else "")
            error = label == "absolute error"
            if line:
                draws.append(partial(_curve, sample.mesh, place, values, "firebrick" if error else "#0072B2"))
                low, high = norm["vmin"], norm["vmax"]
                edge = 0.0 if error else 0.05 * (high - low)
                place.set(xlabel="x", ylabel=names[1] if error else names[0], ylim=(low - edge, high + edge))
                continue
            draws.append(partial(_plane, sample.mesh, place, values, norm, width**2 / ratio))
            if label != "truth":
                where = {"ax": place if error else row[:2].tolist(), "label": names[1] if error else names[0]}
                figure.colorbar(ScalarMappable(Normalize(norm["vmin"], norm["vmax"]), norm["cmap"]), aspect=18, **where)
    heading = figure.suptitle(" ")
    shown: list[Any] = []

    def show(frame: int) -> None:
        while shown:
            shown.pop().remove()
        shown.extend(draw(frame) for draw in draws)
        heading.set_text(f"{sample.name}, t = {sample.times[frame]:.4g}, frame {frame + 1} of {len(sample.times)}")

    show(0)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once, and still from then on
    return canvas, show


def _curve(mesh: Mesh, axes: Axes, values: np.ndarray, color: str, frame: int) -> Any:
    return mesh.curve(axes, values[frame], color=color)


def _plane(mesh: Mesh, axes: Axes, values: np.ndarray, norm: dict[str, Any], area: float, frame: int) -> Any:
    return mesh.draw(axes, values[frame], norm, area)
