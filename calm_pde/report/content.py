"""The content of the page as one JSON object; viewer/README.md specifies it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calm_pde.errors import InputError
from calm_pde.metrics import METRICS, REDUCTIONS
from calm_pde.metrics.scores import Evaluation
from calm_pde.models.inside import LayerKernels
from calm_pde.report.conditions import conditions_content, conditions_table, values_content
from calm_pde.report.findings import Findings, LayerPath, Rank, Sample
from calm_pde.report.meshes import DrawnMesh, drawn_mesh, thinned
from calm_pde.report.packing import packed, quantized
from calm_pde.report.tables import facts, tables

LIMIT = 8_000_000  # bytes of a report whose number of samples nobody chose
_ALWAYS = 3  # worst, median, best
_INFLUENCE = 600_000  # values of the token influence, beside which a report stays small
_AXES = "xyz"


def content(
    findings: Findings,
    *,
    samples: int | None = None,
    room: int = LIMIT,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """All that the page shows.

    Args:
        samples: how many to hold; by default worst, median and best, and as many more as stay within `room`.
        room: bytes for all of it.
        progress: called with what is done and what there is to do, in tokens and samples.
    """
    if samples is not None and samples < 1:
        raise InputError("samples", expected="at least 1", got=str(samples), fix="Leave it out for as many as fit in 8 MB.")
    data, evaluation = findings.surrogate.description, findings.evaluation
    box = data.box
    meshes = _Meshes(findings)
    layers = [_layer(layer) for layer in findings.layers]
    chosen = findings.ranked if samples is None else findings.ranked[: max(samples, _ALWAYS)]
    steps = _Steps(progress, _num_tokens(findings), len(chosen))
    tokens = _tokens(findings, meshes, steps)
    kernels = [_kernels(layer) for layer in findings.kernels]
    rest = {"layers": layers, "tokens": tokens, "kernels": kernels}
    shown = _samples(findings, meshes, chosen, math.inf if samples is not None else room - _size(rest), steps)
    low, high = shown.pop("low"), shown.pop("high")
    fields = [
        {"name": field.name, "unit": field.unit, "low": float(low[place]), "high": float(high[place])}
        for place, field in enumerate(data.fields)
    ]
    error_map = findings.error_map
    return {
        "version": 1,
        "title": findings.title,
        "facts": facts(findings),
        "headline": _headline(findings),
        "task": findings.surrogate.task,
        "dim": box.dim,
        "axes": list(_AXES[: box.dim]),
        "lower": list(box.lower),
        "upper": list(box.upper),
        "periodic": list(data.periodic),
        "fields": fields,
        "times": findings.times.tolist(),
        "given": findings.given,
        "trained_until": findings.trained_until,
        "conditions": conditions_content(findings),
        **shown,
        "errors": {"times": list(evaluation.times), "fields": _frame_errors(evaluation)},
        "error_map": None
        if error_map is None
        else {"mesh": 0, "fields": [quantized(row)[0] for row in error_map[meshes.drawn[0].stored].T]},
        "training": _training(findings),
        **rest,
        "sizes": _sizes(findings),
        "meshes": [mesh.content() for mesh in meshes.drawn],
        "tables": [*tables(evaluation), *conditions_table(findings, chosen)],
        "config": json.dumps(_config(findings), indent=2, ensure_ascii=False),
    }


def _frame_errors(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Every metric of each field in each frame, beside that of the trivial predictor."""
    return [
        {
            "name": ours.name,
            "unit": ours.unit if metric.unit == "field" else "",
            "metric": metric.title,
            "mean": [_finite(frame.mean) for frame in ours.curve(metric)],
            "std": [_finite(frame.std) for frame in ours.curve(metric)],
            "baseline": [_finite(frame.mean) for frame in theirs.curve(metric)],
        }
        for metric in METRICS.values()
        if metric.per_frame
        for ours, theirs in evaluation.predicted
    ]


class _Steps:
    """Counts what is done, first in tokens, then in samples."""

    def __init__(self, progress: Callable[[int, int], None] | None, tokens: int, samples: int) -> None:
        self._show, self._tokens, self._all = progress, tokens, tokens + samples

    def tokens(self, done: int, _: int) -> None:
        if self._show is not None:
            self._show(done, self._all)

    def samples(self, done: int) -> None:
        self.tokens(self._tokens + done, self._all)


class _Meshes:
    """The meshes that the page draws, each once; number 0 is the shared one, where there is one."""

    def __init__(self, findings: Findings) -> None:
        self.drawn: list[DrawnMesh] = []
        self._numbers: dict[int, int] = {}
        description = findings.data.description
        self._shape, self._shared = description.grid_shape, description.shared_mesh
        frames, channels = findings.data.num_frames, len(findings.data.fields)
        self._most = max(10_000, LIMIT // (_ALWAYS * 4 * frames * channels))

    def of(self, sample: Sample) -> int:
        """The number of the mesh of a sample."""
        key = 0 if self._shared else sample.trajectory
        if key not in self._numbers:
            self._numbers[key] = len(self.drawn)
            self.drawn.append(drawn_mesh(sample.points, sample.cells, self._shape, self._most))
        return self._numbers[key]

    def thinned(self, number: int, most: int) -> int:
        """The number of a mesh with at most so many of the points of another."""
        mesh = self.drawn[number]
        found = thinned(mesh, most, self._shape if len(mesh.stored) == mesh.total else None)
        if found is mesh:
            return number
        self.drawn.append(found)
        return len(self.drawn) - 1


def _samples(
    findings: Findings, meshes: _Meshes, chosen: list[tuple[int, Rank | None]], room: int | float, steps: _Steps
) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    low, high = np.inf, -np.inf
    for position, rank in chosen:
        before = len(meshes.drawn)
        sample = findings.sample(position, rank)
        number = meshes.of(sample)
        entry = _sample(sample, number, meshes.drawn[number]) | values_content(findings, sample.trajectory)
        room -= _size([entry, *(mesh.content() for mesh in meshes.drawn[before:])])
        if room < 0 and len(found) >= _ALWAYS:
            del meshes.drawn[before:]
            break
        found.append(entry)
        low, high = np.minimum(low, sample.truth.min(axis=(0, 1))), np.maximum(high, sample.truth.max(axis=(0, 1)))
        steps.samples(len(found))
    steps.samples(len(chosen))
    return {"samples": found, "low": low, "high": high}


def _sample(sample: Sample, number: int, mesh: DrawnMesh) -> dict[str, Any]:
    fields = []
    for channel in range(sample.truth.shape[-1]):
        truth, seen = quantized(sample.truth[:, mesh.stored, channel], deltas=True)
        residual, _ = quantized(sample.prediction[:, mesh.stored, channel] - seen, deltas=True)
        fields.append({"truth": truth, "residual": residual})
    return {
        "name": f"trajectory {sample.trajectory}",
        "rank": sample.rank,
        "error": _finite(sample.error),
        "mesh": number,
        "frame_errors": [[_finite(error) for error in row] for row in sample.frame_errors.tolist()],
        "fields": fields,
    }


def _num_tokens(findings: Findings) -> int:
    model = findings.surrogate.model
    return model.latent_shape().tokens if model.config.abilities.shows_inside else 0


def _tokens(findings: Findings, meshes: _Meshes, steps: _Steps) -> dict[str, Any] | None:
    tokens = _num_tokens(findings)
    if not tokens:
        return None
    sample = findings.sample(findings.median)
    channels = sample.truth.shape[-1]
    number = meshes.of(sample)
    whole = meshes.drawn[number]
    number = meshes.thinned(number, max(256, _INFLUENCE // (2 * tokens * channels)))
    mesh = meshes.drawn[number]
    found = findings.influence(mesh.stored, steps.tokens)
    if found is None:
        return None
    changes = (found.at_once, found.last)
    return {
        "mesh": number,
        "sample": [place for place, _ in findings.ranked].index(findings.median),
        "positions": packed(found.positions.astype(np.float32)),
        "thinned": whole.total if len(mesh.stored) < whole.total else None,
        "fields": [
            dict(
                zip(
                    ("at_once", "last"),
                    (None if change is None else quantized(change[..., channel], bits=8)[0] for change in changes),
                    strict=True,
                )
            )
            for channel in range(channels)
        ],
    }


def _layer(layer: LayerPath) -> dict[str, Any]:
    path = packed(layer.path.astype(np.float32))
    return {"name": layer.name, "epochs": list(layer.epochs), "path": path, "fixed": layer.fixed}


def _kernels(layer: LayerKernels) -> dict[str, Any]:
    queries = [
        {
            "at": kernel.at.tolist(),
            "points": packed(kernel.points.astype(np.float32)),
            "weights": quantized(kernel.weights)[0],
        }
        for kernel in layer.queries
    ]
    return {"name": layer.name, "num_filters": layer.num_filters, "queries": queries}


def _headline(findings: Findings) -> dict[str, Any]:
    evaluation, timing = findings.evaluation, findings.evaluation.timing
    training = findings.surrogate.description.provenance.get("recipe", {}).get("train", {})
    metric = REDUCTIONS[training.get("reduction", "frame")]
    ours, theirs = evaluation.overall(metric), evaluation.baseline.overall(metric)
    return {
        "error": _finite(ours.mean),
        "spread": _finite(ours.std),
        "metric": metric.title,
        "baseline": _finite(theirs.mean),
        "baseline_kind": evaluation.baseline.kind,
        "seconds": timing.seconds,
        "solver_seconds": timing.solver_seconds,
        "speedup": timing.speedup,
        "samples": evaluation.num_samples,
        "split": evaluation.split,
    }


def _config(findings: Findings) -> dict[str, Any]:
    """The recipe, with the model as it was built."""
    return findings.surrogate.description.provenance.get("recipe", {}) | {"model": findings.surrogate.card.model}


def _training(findings: Findings) -> dict[str, Any] | None:
    found = findings.training
    if found is None or not found.epochs:
        return None
    return {name: list(values) for name, values in vars(found).items()}


def _sizes(findings: Findings) -> dict[str, Any] | None:
    model = findings.surrogate.model
    if not model.config.abilities.shows_inside:
        return None
    latent, counts = model.latent_shape(), findings.evaluation.num_points
    points = counts[1] if counts[0] == counts[1] else round(sum(counts) / 2)
    return {
        "physical": {"points": points, "channels": len(findings.data.fields)},
        "latent": {"points": latent.tokens, "channels": latent.channels},
    }


def _size(entry: Any) -> int:
    return len(json.dumps(entry))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
