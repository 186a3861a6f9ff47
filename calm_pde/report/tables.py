"""The facts and tables of a report, as text."""

from __future__ import annotations

from typing import Any

from calm_pde.metrics import METRICS
from calm_pde.metrics.metric import Metric
from calm_pde.metrics.scores import Evaluation, left_out, named
from calm_pde.metrics.values import text
from calm_pde.models import MODELS
from calm_pde.models.size import num_parameters
from calm_pde.report.findings import Findings


def facts(findings: Findings) -> list[list[str]]:
    """What was trained, on what, how long, where, as pairs of a word and a text; what is not known is left out."""
    card, evaluation, data = findings.surrogate.card, findings.evaluation, findings.surrogate.description
    known = data.provenance
    parameters = num_parameters(findings.surrogate.model)
    name = MODELS[card.kind].title or card.kind
    low, high = evaluation.num_points
    points = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    frames = f", {len(findings.times)} frames" if len(findings.times) > 1 else ""
    found = [
        ("Model", f"{name}, {parameters:,} parameters"),
        ("Data", f"{evaluation.data}: {', '.join(data.field_names)} at {points} points{frames}"),
        ("Shown", f"{evaluation.num_samples} trajectories of the {evaluation.split} split, which training has not seen"),
        ("Recipe", known.get("recipe", {}).get("name")),
        ("Training", _training(findings)),
        ("Hardware", known.get("machine")),
        ("Date", card.metrics.get("date")),
        ("Seed", known.get("seed")),
        ("Commit", known.get("commit")),
        ("Versions", ", ".join(f"{name} {version}" for name, version in known.get("versions", {}).items())),
        ("Data fingerprint", evaluation.fingerprint[:16]),
    ]
    if evaluation.split == "train":
        found[2] = ("Shown", f"{evaluation.num_samples} trajectories of the train split, which training has seen")
    if evaluation.diverged:
        found.append(("Diverged", f"{evaluation.diverged} samples, which are not shown"))
    found += [("Left out", text) for text in left_out(evaluation)]
    return [[word, str(text)] for word, text in found if text not in (None, "")]


def tables(evaluation: Evaluation) -> list[dict[str, Any]]:
    """All metrics."""
    found = [_errors(evaluation), _predictors(evaluation)]
    found += [_parts(metric, evaluation) for metric in METRICS.values() if _has_parts(metric, evaluation)]
    if evaluation.conserved:
        rows = [
            [drift.field, drift.integral, _number(max(drift.prediction)), _number(max(drift.truth))]
            for drift in evaluation.conserved
        ]
        columns = ["field", "integral", "prediction", "truth"]
        found.append({"title": "Largest drift of conserved quantities", "columns": columns, "rows": rows})
    timing = evaluation.timing
    rows = [["surrogate", _seconds(timing.seconds), f"in batches of {timing.batch_size} on {timing.device}"]]
    if timing.solver_seconds is not None:
        rows.append(["solver", _seconds(timing.solver_seconds), "on one core"])
    if timing.speedup is not None:
        rows.append(
            ["ratio", f"{timing.speedup:.3g}", f"the surrogate on {timing.threads} thread{'s' if timing.threads > 1 else ''}"]
        )
    found.append({"title": "Seconds per trajectory", "columns": ["", "seconds", ""], "rows": rows})
    return found


def _errors(evaluation: Evaluation) -> dict[str, Any]:
    columns = [metric for metric in METRICS.values() if metric.drawn != "own table"]
    rows = [[named(ours), *(text(ours.of(metric)) for metric in columns)] for ours, _ in evaluation.predicted]
    rows += [[named(field), "given", *[""] * (len(columns) - 1)] for field in evaluation.fields if field.given]
    rows.append(["all", *(text(evaluation.of(metric)) for metric in columns)])
    return {"title": "Errors", "columns": ["field", *(metric.heading() for metric in columns)], "rows": rows}


def _predictors(evaluation: Evaluation) -> dict[str, Any]:
    baseline = evaluation.baseline
    rows = [[named(ours), text(ours.relative_l2), text(theirs.relative_l2)] for ours, theirs in evaluation.predicted]
    rows.append(["all", text(evaluation.relative_l2), text(baseline.relative_l2)])
    return {"title": f"Beside {baseline.kind}", "columns": ["field", "relative L2", baseline.kind], "rows": rows}


def _has_parts(metric: type[Metric], evaluation: Evaluation) -> bool:
    return metric.drawn == "own table" and any(field.of(metric) for field in evaluation.fields)


def _parts(metric: type[Metric], evaluation: Evaluation) -> dict[str, Any]:
    """A row for every field and part of it, such as a band of wave numbers."""
    rows, heads = [], []
    for field in evaluation.fields:
        found = field.of(metric)
        for part, numbers in found.items() if isinstance(found, dict) else ():
            rows.append([named(field), part, *(text(number) for _, number in numbers)])
            heads = [METRICS[name].heading() if name in METRICS else name for name, _ in numbers]
    return {"title": metric.title, "columns": ["field", "part", *heads], "rows": rows}


def _training(findings: Findings) -> str | None:
    card, words = findings.surrogate.card, []
    if "seconds" in card.metrics:
        words.append(_duration(card.metrics["seconds"]))
    if findings.training is not None and findings.training.epochs:
        words.append(f"{findings.training.epochs[-1]} epochs")
    if "epoch" in card.metrics:
        words.append(f"best on validation after epoch {card.metrics['epoch']}")
    return ", ".join(words) or None


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _seconds(value: float) -> str:
    return f"{value:.3g}"
