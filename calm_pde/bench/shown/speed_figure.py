"""The comparison of speed as a picture: training steps as bars, inference against the number of steps (the paper's figure)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import cycle

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calm_pde.bench.measured.contenders import TRAJECTORIES, Setting
from calm_pde.bench.shown.speed_table import OURS, Speed
from calm_pde.bench.shown.table import seconds_text
from calm_pde.report.panels import STYLE, WIDTH

_OURS_COLOR = "#D55E00"
_COLORS = ("#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#7F7F7F", "#8C564B")
_MARKERS = "osv^D<>p"


@rc_context(STYLE)
def speed_figure(found: Sequence[Speed], setting: Setting, heading: str) -> Figure:
    """Fastest first; ours stands out."""
    figure = Figure(figsize=(WIDTH, 3.3), layout="constrained")
    training, inference = figure.subplots(1, 2)
    _training(training, [one for one in found if one.step is not None])
    _inference(inference, [one for one in found if one.inference_seconds])
    figure.suptitle(f"{TRAJECTORIES} trajectories at {setting.points} × {setting.points} points · {heading}")
    return figure


def _training(axes: Axes, found: Sequence[Speed]) -> None:
    ordered = sorted(found, key=lambda one: one.step or 0.0, reverse=True)
    seconds = [one.step or 0.0 for one in ordered]
    colors = [_OURS_COLOR if one.name == OURS else "0.65" for one in ordered]
    bars = axes.barh([one.name for one in ordered], seconds, color=colors)
    axes.bar_label(bars, [seconds_text(value) for value in seconds], padding=2, fontsize=7)
    axes.set(xscale="log", xlabel="seconds", title="one training step, all transitions")
    axes.set_xlim(min(seconds) / 2, 3 * max(seconds))
    axes.spines[["top", "right"]].set_visible(False)


def _inference(axes: Axes, found: Sequence[Speed]) -> None:
    looks = cycle(zip(_COLORS, _MARKERS, strict=True))
    for one in sorted(found, key=lambda one: max(one.inference_seconds.values()), reverse=True):
        ours = one.name == OURS
        color, marker = (_OURS_COLOR, "*") if ours else next(looks)
        steps = sorted(one.inference_seconds)
        seconds = [one.inference_seconds[count] for count in steps]
        axes.plot(steps, seconds, color=color, marker=marker, markersize=8 if ours else 3.5, linewidth=2.2 if ours else 1.1)
        axes.lines[-1].set_label(one.whole)
    axes.set(xscale="log", yscale="log", xlabel="prediction steps", ylabel="seconds", title="inference")
    steps = sorted({count for one in found for count in one.inference_seconds})
    axes.set_xticks(steps, [str(count) for count in steps])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.4)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def speed_picture(found: Sequence[Speed], setting: Setting, heading: str) -> bytes:
    """The figure as a PNG file."""
    place = io.BytesIO()
    speed_figure(found, setting, heading).savefig(place, format="png", dpi=160)
    return place.getvalue()
