"""What figures are drawn of in tests: analytic fields on lines, grids, triangles around a hole, volumes; and a tiny model."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.spatial import Delaunay

from calm_pde.geometry import cell_centers, tensor_grid
from calm_pde.metrics.scores import Baseline, Evaluation, FieldErrors, Spread, Timing
from calm_pde.models.calm.kernel_weights import kernel_weights
from calm_pde.records.description import Description, Field
from calm_pde.report.field_figures import DrawnSample
from calm_pde.report.figures import FigureInputs
from calm_pde.report.findings import LayerPath, Training
from calm_pde.report.panels import Mesh
from calm_pde.report.tokens import physical, token_influence
from tests.clouds import random_cloud
from tests.report.surrogates import tiny

FIELDS = (Field(name="u", unit="m/s"), Field(name="pressure"))


def around_a_hole(seed: int = 0, count: int = 240) -> tuple[np.ndarray, np.ndarray]:
    """Points of [0, 2] × [0, 1] without a disk, and Delaunay's triangles but for those across it."""
    draw = np.random.default_rng(seed)
    points = draw.uniform((0, 0), (2, 1), size=(count, 2))
    turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    circle = np.array([0.7, 0.5]) + 0.2 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    points = np.concatenate([points[np.hypot(*(points - (0.7, 0.5)).T) > 0.22], circle])
    cells = Delaunay(points).simplices
    middle = points[cells].mean(axis=1)
    return points, cells[np.hypot(*(middle - (0.7, 0.5)).T) > 0.2]


def mesh(kind: str, description: Description, seed: int = 0) -> Mesh:
    if kind == "triangles":
        return Mesh(*around_a_hole(seed), description)
    if kind == "cloud":
        return Mesh(np.random.default_rng(seed).uniform(0, 1, size=(300, 3)) * description.box.upper, None, description)
    return Mesh(description.points, None, description)  # pyright: ignore[reportArgumentType]


SHAPES = {"line": (48,), "grid": (24, 12), "volume": (10, 8, 6)}
DIMS = {"line": 1, "grid": 2, "triangles": 2, "volume": 3, "cloud": 3}


def sample(kind: str, frames: int = 4, fields: tuple[Field, ...] = FIELDS, seed: int = 0) -> DrawnSample:
    """Waves and a positive field, and a prediction that goes wrong with time."""
    box = tiny(DIMS[kind]).card.box
    times, shape = 0.5 * np.arange(frames), SHAPES.get(kind)
    points = None if shape is None else tensor_grid(*(cell_centers(n) for n in shape)) * box.upper
    where = mesh(kind, Description("waves", fields, box, times, points, grid_shape=shape), seed)
    phase = np.pi * where.points[:, 0] - times[:, None] + where.points[:, 1:].sum(axis=1)
    rows = [np.sin(phase + place) if place % 2 == 0 else 2 + np.cos(phase) for place in range(len(fields))]
    truth = np.stack(rows, axis=-1)
    wrong = 0.02 * np.arange(frames)[:, None, None] * np.cos(3 * truth)
    errors = (np.linalg.norm(wrong, axis=1) / np.linalg.norm(truth, axis=1)).T
    return DrawnSample(f"trajectory {seed}", fields, where, times, truth, truth + wrong, errors, given=min(1, frames - 1))


def evaluation(frames: int, fields: tuple[Field, ...] = FIELDS) -> Evaluation:
    def scores(size: float) -> dict[str, Any]:
        spread = Spread(mean=size, std=0.3 * size)
        curve = tuple(Spread(mean=size * (1 + frame), std=0.4 * size * (1 + frame)) for frame in range(frames))
        numbers: dict[str, Any] = {"rmse": size, "normalized_rmse": size, "max_error": size}
        of_fields = tuple(
            FieldErrors(name=f.name, unit=f.unit, relative_l2=spread, relative_l2_spacetime=spread, frames=curve, **numbers)
            for f in fields
        )
        return {"relative_l2": spread, "relative_l2_spacetime": spread, "fields": of_fields}

    return Evaluation(
        **scores(0.02),
        data="waves",
        fingerprint="",
        split="test",
        num_samples=3,
        num_points=(9, 9),
        times=tuple(0.5 * (frame + (frames > 1)) for frame in range(frames)),
        legacy_padding_metric=False,
        diverged=0,
        trajectories=(7, 8, 9),
        sample_errors=(0.1, 0.2, 0.3),
        baseline=Baseline(**scores(0.5), kind="persistence"),
        conserved=(),
        timing=Timing(seconds=1.0, solver_seconds=None, speedup=None, batch_size=1, device="cpu", threads=1),
    )


TRAINING = Training(
    epochs=(1, 2, 3, 4),
    loss=(1.0, 0.4, None, 0.2),
    validation=((2, 0.5), (4, 0.3)),
    learning_rate=(1e-3, 8e-4, 4e-4, 1e-5),
    length=(2, 3, 4, 4),
)


def drawing(
    kind: str, frames: int = 4, task: str = "rollout", fields: tuple[Field, ...] = FIELDS, **model: Any
) -> FigureInputs:
    """All that figures show, of a tiny model with two fields on this kind of mesh."""
    surrogate, shown = tiny(DIMS[kind], task=task, **model), sample(kind, frames, fields)
    card, places = surrogate.card, shown.mesh.points
    points = torch.from_numpy(card.box.to_unit(places))
    values = random_cloud(len(points), 2, seed=4)
    thinned = slice(None, None, 1 if kind in SHAPES else 2)
    influence = token_influence(surrogate, values, points, queries=points[thinned])
    draw = np.random.default_rng(0)
    layers = []
    for layer in surrogate.model.query_points():
        end = physical(layer.positions, card.box)
        path = end + np.array([0.2, 0.1, 0])[:, None, None] * draw.normal(size=end.shape)
        layers.append(LayerPath(layer.name, (0, 1, 5), path, False))
    return FigureInputs(
        samples=[shown] if kind in SHAPES else [shown, sample(kind, frames, fields, seed=1)],
        evaluation=evaluation(max(1, frames - 1), fields),
        points=places,
        trained_until=1.0 if frames > 1 else None,
        training=TRAINING,
        error_map=np.abs(shown.prediction - shown.truth).mean(axis=0) if kind in SHAPES else None,
        layers=layers,
        influence=(influence, Mesh(places[thinned], None, shown.mesh.description)),
        kernels=kernel_weights(surrogate.model, points, card.box),
    )
