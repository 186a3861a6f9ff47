"""Figures of numbers: the error against time and the course of a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calm_pde.data.picture import field_label
from calm_pde.metrics.metric import Metric
from calm_pde.metrics.relative_l2 import RelativeL2
from calm_pde.metrics.scores import Evaluation, FieldErrors
from calm_pde.records.description import Field
from calm_pde.report.findings import Training
from calm_pde.report.panels import STYLE, WIDTH

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # told apart by color-blind people too
_BASELINE: dict[str, Any] = {"color": "0.45", "linestyle": "--"}


@rc_context(STYLE)
def error_figure(evaluation: Evaluation, trained_until: float | None = None, metric: type[Metric] = RelativeL2) -> Figure:
    """A metric of every field against time: mean and standard deviation over samples, and the trivial predictor.

    Args:
        trained_until: the last time seen in training, from the initial state as the evaluation's times are.
        metric: one that is `per_frame`.
    """
    pairs = evaluation.predicted
    if len(evaluation.times) == 1:
        return _without_time(evaluation, metric)
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    figure = Figure(figsize=(WIDTH if columns > 1 else 4.6, 2.3 * rows + 0.35), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for unused in grid[len(pairs) :]:
        unused.remove()
    times = np.asarray(evaluation.times)
    for place, (ours, reference), color in zip(grid, pairs, _COLORS * len(pairs), strict=False):
        mean, std = _frames(ours, metric)
        place.fill_between(times, mean - std, mean + std, color=color, alpha=0.25, linewidth=0, label="± standard deviation")
        place.plot(times, mean, color=color, label="mean over samples")
        place.plot(times, _frames(reference, metric)[0], label=evaluation.baseline.kind, **_BASELINE)
        if trained_until is not None:
            place.axvline(trained_until, color="black", linewidth=0.8, linestyle=":", label="trained horizon")
        place.set(title=field_label(Field(name=ours.name)), ylabel=_axis(metric, ours))
        _log_scale(place, [mean, mean + std, _frames(reference, metric)[0]])
    for place in grid[max(0, len(pairs) - columns) : len(pairs)]:
        place.set_xlabel("time t")
        place.xaxis.set_tick_params(labelbottom=True)
    figure.legend(
        *grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=4 if columns > 1 else 2, frameon=False
    )
    figure.suptitle(f"error on {evaluation.num_samples} {evaluation.split} trajectories")
    return figure


def _axis(metric: type[Metric], errors: FieldErrors) -> str:
    return field_label(Field(name=metric.title, unit=errors.unit if metric.unit == "field" else ""))


def _without_time(evaluation: Evaluation, metric: type[Metric]) -> Figure:
    """One bar of mean ± standard deviation per field."""
    figure = Figure(figsize=(min(WIDTH, 2.4 + 0.9 * len(evaluation.fields)), 2.6), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(evaluation.fields))
    spread = [field.curve(metric)[0] for field in evaluation.fields]
    baseline = [field.curve(metric)[0].mean for field in evaluation.baseline.fields]
    axes.errorbar(
        places,
        [one.mean for one in spread],
        yerr=[one.std for one in spread],
        fmt="o",
        color=_COLORS[0],
        capsize=4,
        label="mean ± standard deviation",
    )
    axes.plot(places, baseline, "_", color="0.45", markersize=16, label=evaluation.baseline.kind)
    axes.set_xticks(places, [field_label(Field(name=field.name)) for field in evaluation.fields])
    axes.set(ylabel=metric.title, xlim=(-0.6, len(places) - 0.4))
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(f"error on {evaluation.num_samples} {evaluation.split} samples")
    return figure


def _frames(errors: FieldErrors, metric: type[Metric]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each frame; what diverged is left out of the line."""
    found = np.array([(frame.mean, frame.std) for frame in errors.curve(metric)], dtype=float)
    found[~np.isfinite(found).all(axis=1)] = np.nan
    return found[:, 0], found[:, 1]


def _log_scale(axes: Axes, rows: Sequence[np.ndarray]) -> None:
    """Orders of magnitude, from half of the smallest value to twice the largest; a band may reach below the frame."""
    values = np.concatenate(rows)
    values = values[np.isfinite(values) & (values > 0)]
    if values.size:
        axes.set_yscale("log")
        axes.set_ylim(values.min() / 2, values.max() * 2)


@rc_context(STYLE)
def training_figure(training: Training) -> Figure:
    """Loss and validation, the learning rate and the rollout length of every epoch."""
    figure = Figure(figsize=(4.8, 4.4), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(2.4, 1, 1))
    top.plot(training.epochs, np.array(training.loss, dtype=float), color=_COLORS[0], label="training loss")
    if training.validation:
        dots = "o-" if len(training.validation) < 30 else "-"
        epochs, errors = zip(*training.validation, strict=True)
        top.plot(epochs, errors, dots, color=_COLORS[1], markersize=2.5, label="validation, relative L2")
    top.set(yscale="log", ylabel="loss and error")
    top.legend(frameon=False)
    middle.plot(training.epochs, training.learning_rate, color="0.25")
    middle.set(ylabel="learning rate")
    middle.ticklabel_format(axis="y", style="sci", scilimits=(-2, 3))
    bottom.step(training.epochs, training.length, where="mid", color="0.25")
    bottom.set(ylabel="frames", xlabel="epoch")
    bottom.yaxis.get_major_locator().set_params(integer=True)
    figure.align_ylabels()
    return figure
