"""The figures of a report for papers: what they show, and files of all of them in one folder."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from calm_pde.errors import InputError
from calm_pde.files.folders import make_folder
from calm_pde.geometry import Box
from calm_pde.metrics import METRICS
from calm_pde.metrics.relative_l2 import RelativeL2
from calm_pde.metrics.scores import Evaluation
from calm_pde.models.inside import LayerKernels
from calm_pde.report.animation import write_animation
from calm_pde.report.curve_figures import error_figure, training_figure
from calm_pde.report.field_figures import (
    DrawnSample,
    error_map_figure,
    first_frames,
    frames_figure,
    space_time_figure,
    spread_frames,
)
from calm_pde.report.findings import Findings, LayerPath, Training
from calm_pde.report.panels import Mesh
from calm_pde.report.query_figures import influence_figure, kernel_figure, paths_figure, positions_figure
from calm_pde.report.tokens import TokenInfluence

_DPI = 220
_MOST = 20_000  # points at which the influence of tokens is drawn
_SAVING: dict[Any, Any] = {"pdf.fonttype": 42, "svg.fonttype": "none"}  # letters stay letters
_DATELESS: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}  # the same figure, the same file
FORMATS = ("png", "pdf", "svg")


@dataclass(frozen=True)
class FigureInputs:
    """All that the figures show; what is None or empty has no figure.

    Args:
        samples: those that are drawn frame by frame; the first moves.
        points: (point, dim), a whole mesh as the surrogate takes it.
        trained_until: the last time seen in training, from the initial state.
        error_map: (point, channel), mean over samples and frames of |error|, on the mesh of the first sample.
        influence: with the mesh where it was looked at.
    """

    samples: Sequence[DrawnSample]
    evaluation: Evaluation
    points: np.ndarray
    trained_until: float | None = None
    training: Training | None = None
    error_map: np.ndarray | None = None
    layers: Sequence[LayerPath] = ()
    influence: tuple[TokenInfluence, Mesh] | None = None
    kernels: Sequence[LayerKernels] = ()

    @property
    def box(self) -> Box:
        return self.samples[0].mesh.description.box


def figure_inputs(findings: Findings) -> FigureInputs:
    """Worst, median and best sample and all analyses of a run; of volumes the middle plane."""
    description = findings.data.description

    def drawn(position: int, rank: str) -> DrawnSample:
        sample = findings.sample(position)
        kept, mesh = Mesh(sample.points, sample.cells, description).plane()
        return DrawnSample(
            name=f"trajectory {sample.trajectory} ({rank})",
            fields=findings.surrogate.description.fields,
            mesh=mesh,
            times=findings.times,
            truth=sample.truth[:, kept],
            prediction=sample.prediction[:, kept],
            frame_errors=sample.frame_errors,
            given=findings.given,
        )

    median = findings.sample(findings.median)
    plane, mesh = Mesh(median.points, median.cells, description).plane()
    errors = findings.error_map  # of a mesh that all share, so of this one
    asked = plane[:: math.ceil(len(plane) / _MOST)]
    if len(asked) < len(plane):
        mesh = Mesh(median.points[asked, :2], None, replace(description, grid_shape=None))
    influence = findings.influence(asked)
    return FigureInputs(
        samples=[drawn(position, rank) for position, rank in findings.ranked if rank is not None],
        evaluation=findings.evaluation,
        points=median.points,
        trained_until=findings.trained_until,
        training=findings.training,
        error_map=None if errors is None else errors[plane],
        layers=findings.layers,
        influence=None if influence is None else (influence, mesh),
        kernels=findings.kernels,
    )


def write_figures(
    inputs: FigureInputs,
    folder: Path,
    formats: Sequence[str] = ("png", "pdf"),
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Every figure in every format, and the animation, as files in the folder, which is made where it is missing."""
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise InputError("formats", expected=f"some of {', '.join(FORMATS)}", got=str(list(formats)), fix="Name others.")
    if not inputs.samples:
        raise InputError("inputs.samples", expected="at least one sample", got="none", fix="Draw the first of the split.")
    make_folder(folder)
    named = list(_named_figures(inputs))
    moves = not inputs.samples[0].steady
    written = []
    for done, (name, draw) in enumerate(named, start=1):
        figure = draw()
        for form in formats:
            path = folder / f"{name}.{form}"
            with rc_context(_SAVING):
                figure.savefig(path, dpi=_DPI, bbox_inches="tight", pad_inches=0.03, metadata=_DATELESS.get(form))
            figure.set_layout_engine("none")  # found for the first format, and good for the others
            written.append(path)
        if progress is not None:
            progress(done, len(named) + moves)
    if moves:
        written += write_animation(inputs.samples[0], folder / "animation.gif")
        if progress is not None:
            progress(len(named) + 1, len(named) + 1)
    return written


def _named_figures(inputs: FigureInputs) -> Iterator[tuple[str, Callable[[], Figure]]]:
    """The name of each figure, and what draws it."""
    for metric in (one for one in METRICS.values() if one.per_frame):
        name = "error" if metric is RelativeL2 else f"error_{metric.name}"
        yield name, lambda shown=metric: error_figure(inputs.evaluation, inputs.trained_until, shown)
    training = inputs.training
    if training is not None and training.epochs:
        yield "training", lambda: training_figure(training)
    for place, sample in enumerate(inputs.samples):
        yield from _sample_figures(f"sample_{place + 1}", sample)
    first, errors = inputs.samples[0], inputs.error_map
    if errors is not None:
        yield "error_map", lambda: error_map_figure(first.mesh, errors, first.fields)
    if inputs.layers:
        yield "positions", lambda: positions_figure(inputs.points, inputs.layers, inputs.box)
        yield "paths", lambda: paths_figure(inputs.layers, inputs.box)
    if inputs.influence is not None:
        influence, mesh = inputs.influence
        for channel, name in enumerate(_names(first)):
            yield f"influence_{name}", lambda at=channel: influence_figure(influence, mesh, at, first.fields[at])
    for layer in inputs.kernels:
        for absolute in (False, True):
            name = f"kernels_{layer.name.replace(' ', '_')}{'_absolute' if absolute else ''}"
            yield name, lambda layer=layer, absolute=absolute: kernel_figure(layer, absolute=absolute)


def _sample_figures(name: str, sample: DrawnSample) -> Iterator[tuple[str, Callable[[], Figure]]]:
    first, spread = first_frames(sample), spread_frames(sample)
    for channel, field in enumerate(_names(sample)):
        yield f"{name}_{field}", lambda at=channel: frames_figure(sample, at, first)
        if len(sample.times) > len(first):
            yield f"{name}_{field}_to_the_end", lambda at=channel: frames_figure(sample, at, spread)
    if sample.mesh.dim == 1 and not sample.steady:
        yield f"{name}_space_time", lambda: space_time_figure(sample)


def _names(sample: DrawnSample) -> list[str]:
    """The fields as parts of file names: plain letters, and a number where that is not enough."""
    plain = [re.sub(r"[^A-Za-z0-9]+", "_", field.name).strip("_")[:40] for field in sample.fields]
    return [
        name if name and plain.count(name) == 1 else f"field_{place}{'_' * bool(name)}{name}"
        for place, name in enumerate(plain, start=1)
    ]
