"""The facts and tables of a report, as text."""

from __future__ import annotations

from typing import Any

from calm_pde.metrics.scores import Evaluation, FieldErrors, Scores, Spread, left_out
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
    if any(field.bands for field in evaluation.fields):
        found.append(_bands(evaluation))
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
    columns = ["field", "relative L2", "space-time", "RMSE", "normalized RMSE", "largest"]
    rows = [
        [_named(field), *_spreads(field), *(_number(value) for value in (field.rmse, field.normalized_rmse, field.max_error))]
        for field in evaluation.fields
    ]
    return {"title": "Errors", "columns": columns, "rows": [*rows, ["all", *_spreads(evaluation), "", "", ""]]}


def _predictors(evaluation: Evaluation) -> dict[str, Any]:
    baseline = evaluation.baseline
    rows = [
        [_named(ours), _spreads(ours)[0], _spreads(theirs)[0]]
        for ours, theirs in zip(evaluation.fields, baseline.fields, strict=True)
    ]
    rows.append(["all", _spreads(evaluation)[0], _spreads(baseline)[0]])
    return {"title": f"Beside {baseline.kind}", "columns": ["field", "relative L2", baseline.kind], "rows": rows}


def _bands(evaluation: Evaluation) -> dict[str, Any]:
    rows = [
        [_named(field), name, _number(band.relative_l2), _number(band.rmse)]
        for field in evaluation.fields
        for name, band in field.bands.items()
    ]
    return {"title": "Errors by wave number", "columns": ["field", "band", "relative L2", "RMSE"], "rows": rows}


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


def _named(field: FieldErrors) -> str:
    return f"{field.name} [{field.unit}]" if field.unit else field.name


def _spreads(scores: Scores | FieldErrors) -> list[str]:
    return [_spread(scores.relative_l2), _spread(scores.relative_l2_spacetime)]


def _spread(value: Spread) -> str:
    return f"{value.mean:.4f} ± {value.std:.4f}"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _seconds(value: float) -> str:
    return f"{value:.3g}"
