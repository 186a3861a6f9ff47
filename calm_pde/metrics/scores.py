"""The numbers that an evaluation finds, and the table that shows them."""

from __future__ import annotations

from io import StringIO
from typing import Literal

from pydantic import ConfigDict
from rich.console import Console
from rich.table import Table

from calm_pde.metrics import METRICS
from calm_pde.metrics.metric import Metric
from calm_pde.metrics.values import Found, Spread, Value, text
from calm_pde.records.trajectory import Split


class _Measured(Found):
    """Numbers by the name of their metric: attributes, and keys of the JSON file."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Value | tuple[Spread, ...]]

    relative_l2: Spread
    """The paper's error, which every evaluation has; the others are those of `METRICS`."""

    def of(self, metric: type[Metric]) -> Value | None:
        """The number of a metric, None where there is none."""
        return getattr(self, metric.name, None)


class FieldErrors(_Measured):
    """Of one field."""

    name: str
    unit: str = ""
    frames: tuple[Spread, ...]
    """The relative L2 of each frame."""
    zero_frames: int = 0
    """Frames, of all samples, whose truth is exactly zero: they have no relative error, and its means leave them out."""
    given: bool = False
    """Whether it is prescribed at all points: nothing of it is predicted, so it has no errors."""

    def curve(self, metric: type[Metric]) -> tuple[Spread, ...]:
        """A metric that is `per_frame` in each frame."""
        return getattr(self, metric.frames_name())


class Scores(_Measured):
    """How far one predictor is from the truth; the overall numbers are means over frames and fields."""

    fields: tuple[FieldErrors, ...]

    def overall(self, metric: type[Metric]) -> Spread:
        """A metric that is `overall`, of all fields together."""
        return getattr(self, metric.name)


class Baseline(Scores):
    """A predictor that knows nothing: the initial state for ever, or the mean of the training fields."""

    kind: Literal["persistence", "training mean"]


class Drift(Found):
    """|∫u(t) − ∫u(0)| / ∫|u(0)| per frame, mean over the samples that do not start from exactly zero."""

    field: str
    integral: Literal["mean over points", "cell measures"]
    prediction: tuple[float, ...]
    truth: tuple[float, ...]
    zero_starts: int = 0
    """Samples that do start from it."""


class Timing(Found):
    """Seconds per trajectory in the median, ours after one warm-up and in batches, the solver's as the data file knows it."""

    seconds: float
    solver_seconds: float | None
    speedup: float | None
    batch_size: int
    device: str
    threads: int


class Evaluation(Scores):
    """All that `evaluate` finds, as JSON with `model_dump_json`."""

    data: str
    fingerprint: str
    split: Split
    num_samples: int
    num_points: tuple[int, int]
    """Of the smallest and of the largest mesh."""
    times: tuple[float, ...]
    """Of the frames that are compared, physical, from the initial state."""
    legacy_padding_metric: bool
    diverged: int
    """Samples with answers that are not finite; their errors count as infinite, and so do all means that hold them."""
    diverged_frames: dict[int, int] = {}  # noqa: RUF012 - pydantic copies it
    """By trajectory of the data file: the place in `times` where its answer is not finite for the first time."""
    trajectories: tuple[int, ...]
    """Which of the data file the samples are."""
    sample_errors: tuple[float, ...]
    """The relative L2 of each, mean over frames and fields."""
    baseline: Baseline
    conserved: tuple[Drift, ...]
    timing: Timing

    @property
    def predicted(self) -> list[tuple[FieldErrors, FieldErrors]]:
        """Of each field that is not given: our errors, and those of the trivial predictor."""
        pairs = zip(self.fields, self.baseline.fields, strict=True)
        return [(ours, theirs) for ours, theirs in pairs if not ours.given]

    def __repr__(self) -> str:
        ours, theirs = self.relative_l2, self.baseline.relative_l2
        diverged = f"; {self.diverged} diverged" if self.diverged else ""
        return (
            f"Evaluation({self.data}, {self.split}: {self.num_samples} trajectories, {len(self.times)} frames; "
            f"relative L2 {ours.mean:.4f} ± {ours.std:.4f}, {self.baseline.kind} {theirs.mean:.4f}{diverged})"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        screen = Console(record=True, file=StringIO(), width=140)
        screen.print(table(self))
        return screen.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def table(evaluation: Evaluation) -> Table:
    """The headline, each field, the trivial predictor beside them, and the times."""
    baseline, timing = evaluation.baseline, evaluation.timing
    shown = Table(title=f"{evaluation.data}, {evaluation.split}: {evaluation.num_samples} samples")
    columns = [metric for metric in METRICS.values() if metric.drawn == "everywhere"]
    for name in ("field", *(metric.heading() for metric in columns), baseline.kind):
        shown.add_column(name, justify="left" if name == "field" else "right", no_wrap=name != "field")
    for ours, other in zip(evaluation.fields, baseline.fields, strict=True):
        numbers = [*(_narrow(ours.of(metric)) for metric in columns), _narrow(other.relative_l2)]
        shown.add_row(named(ours).replace("[", r"\["), *(["given"] if ours.given else numbers))
    shown.add_section()
    shown.add_row("all", *(_narrow(evaluation.of(metric)) for metric in columns), _narrow(baseline.relative_l2))
    lines = [f"{timing.seconds:.3g} s per trajectory in batches of {timing.batch_size} on {timing.device}"]
    if timing.solver_seconds is not None:
        lines[0] += f"; the solver {timing.solver_seconds:.3g} s on one core, {timing.speedup:.3g} times ours"
    for drift in evaluation.conserved:
        worst = f"{max(drift.prediction):.2g}, of the truth {max(drift.truth):.2g}"
        lines.append(f"largest drift of {drift.field} ({drift.integral}): {worst}")
    lines += left_out(evaluation)
    if evaluation.legacy_padding_metric:
        lines.append("relative errors count padded points, as the published ones do")
    if evaluation.diverged:
        lines.append(diverged(evaluation))
    shown.caption = "\n".join(lines)
    return shown


def named(field: FieldErrors) -> str:
    return f"{field.name} [{field.unit}]" if field.unit else field.name


def diverged(evaluation: Evaluation) -> str:
    """How many samples diverged, and which of them first, in words."""
    text = f"{evaluation.diverged} samples diverged, whose errors count as infinite"
    if not evaluation.diverged_frames:
        return text
    sample, place = min(evaluation.diverged_frames.items(), key=lambda entry: entry[1])
    when = f"t = {evaluation.times[place]:g} (frame {place + 1:,} of {len(evaluation.times):,})"
    return f"{text}; trajectory {sample} is the first, not finite at {when}"


def left_out(evaluation: Evaluation) -> list[str]:
    """What has no relative error, since its truth is exactly zero, in words."""
    frames = evaluation.num_samples * len(evaluation.times)
    found = [
        f"{field.name} is exactly zero in {field.zero_frames:,} of {frames:,} frames, which the relative errors leave out"
        for field in evaluation.fields
        if field.zero_frames
    ]
    return found + [
        f"{drift.field} starts from exactly zero in {drift.zero_starts:,} samples, which its drift leaves out"
        for drift in evaluation.conserved
        if drift.zero_starts
    ]


def _narrow(value: Value | None) -> str:
    return text(value).replace(" ", "")
