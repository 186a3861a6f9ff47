"""Evaluation: how far a surrogate's answers are from a data file, beside a trivial predictor and the solver's time."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from calm_pde.config import suggestion
from calm_pde.data.dataset import Dataset
from calm_pde.data.storage import DataFile
from calm_pde.data.windows import grouped, whole_windows
from calm_pde.errors import FileError, InputError, TrainingRangeWarning, warn
from calm_pde.files.folders import replace_file
from calm_pde.geometry import tensor_grid
from calm_pde.metrics.cell_weights import cell_weights
from calm_pde.metrics.gathering import Gathering
from calm_pde.metrics.scores import Baseline, Drift, Evaluation, Timing
from calm_pde.progress import barred
from calm_pde.records.batch import Batch
from calm_pde.surrogate.nearness import corners
from calm_pde.surrogate.surrogate import Surrogate, surrogate_of
from calm_pde.types import Tensor


@barred("evaluate")
def evaluate(
    run: Surrogate | str | os.PathLike[str],
    data: DataFile | str | os.PathLike[str] | None = None,
    *,
    split: str = "test",
    frame_stride: int | None = None,
    batch_size: int = 8,
    legacy_padding_metric: bool = False,
    progress: Callable[[int, int], None] | None = None,
    observe: Callable[[Batch, Tensor], None] | None = None,
) -> Evaluation:
    """Errors on physical values over whole trajectories of a split, one batch in memory at a time.

    Frame 0 is given and not scored; an autoencoder is given every frame and scored on it. Relative errors are relative to
    the field's own size, whatever its unit; a frame whose truth is exactly zero has none, is left out of means, and counted.
    Where an answer is not finite, its error is infinite, and so is every mean that holds it: divergence never flatters.
    Values that are prescribed are no predictions: they are left out of every error and of the size that it is relative to.

    Args:
        run: a surrogate, or the folder of a run or of a surrogate.
        data: a data file; by default the one of the training.
        frame_stride: take every so many-th frame; by default as in training.
        legacy_padding_metric: count the points that pad a mesh to the split's largest as the training mean, right in
            prediction and truth, as the published numbers on meshes of different size do.
        observe: called with each batch and its answer (batch, time, point, channel), physical, frame 0 left out.
    """
    if batch_size < 1:
        raise InputError("batch_size", expected="at least 1", got=str(batch_size), fix="8 is a good start.")
    surrogate = surrogate_of(run)
    file, stride = data_of(surrogate, run, data)
    check_fits(surrogate, file)
    check_times(surrogate, file)
    chosen = Dataset(file, split, fields=surrogate.description.field_names, frame_stride=frame_stride or stride)
    return _evaluation(surrogate, chosen, batch_size, legacy_padding_metric, progress, observe)


def _evaluation(
    surrogate: Surrogate,
    data: Dataset,
    batch_size: int,
    legacy_padding_metric: bool,
    progress: Callable[[int, int], None] | None,
    observe: Callable[[Batch, Tensor], None] | None,
) -> Evaluation:
    """The one pass over a split."""
    fields, mean, file = surrogate.description.fields, surrogate.translator.statistics.mean, data.file
    most = int(file.num_points[data.indices].max())
    padding = (torch.tensor(mean, dtype=torch.float64), most) if legacy_padding_metric else None
    ours, reference = Gathering(_spectral_grid(data), padding), Gathering(None, padding)
    drift = _DriftSums(surrogate, data)
    surrogate.model.eval()
    measured: list[float] = []
    trajectories: list[int] = []
    diverged: dict[int, int] = {}
    for batch in data.batches(grouped(whole_windows(len(data), data.num_frames), batch_size)):
        _check_finite(batch, file)
        given = for_surrogate(surrogate, data, batch)
        if not measured:
            answers(surrogate, given)
        start = time.perf_counter()
        answer = answers(surrogate, given)
        measured += [(time.perf_counter() - start) / len(batch)] * len(batch)
        truth = batch.fields.double()
        target = truth[:, 1:] if surrogate.task == "rollout" else truth
        real = answer if batch.mask is None else answer.masked_fill(~batch.mask[:, None, :, None], 0.0)
        diverged |= _first_nonfinite(batch, real)
        known = surrogate.translator.known(batch)
        known = None if known is None else known[:, -target.shape[1] :]
        ours.add(answer, target, batch.mask, known)
        reference.add(_known_in_advance(surrogate, truth, target), target, batch.mask, known)
        drift.add(batch, answer)
        trajectories += batch.samples.tolist()
        if observe is not None:
            observe(batch, answer)
        if progress is not None:
            progress(len(measured), len(data))
    frame_times = (data.times - data.times[0])[1 if surrogate.task == "rollout" else 0 :]
    return Evaluation(
        **ours.scores(fields),
        data=data.description.name,
        fingerprint=file.fingerprint,
        split=data.split,
        num_samples=len(data),
        num_points=(int(file.num_points[data.indices].min()), most),
        times=tuple(frame_times.tolist()),
        legacy_padding_metric=legacy_padding_metric,
        diverged=len(diverged),
        diverged_frames=diverged,
        trajectories=tuple(trajectories),
        sample_errors=tuple(ours.sample_errors()),
        baseline=Baseline(**reference.scores(fields), kind="persistence" if surrogate.task == "rollout" else "training mean"),
        conserved=drift.found(),
        timing=_timing(surrogate, measured, drift.solver_seconds, batch_size),
    )


def data_of(surrogate: Surrogate, run: object, data: DataFile | str | os.PathLike[str] | None = None) -> tuple[DataFile, int]:
    """The file to evaluate on, by default the one of the training, and the training's stride of frames.

    Args:
        run: what to name where the surrogate does not know its file.
    """
    trained = surrogate.description.provenance.get("recipe", {}).get("data", {})
    if data is None and "file" not in trained:
        raise FileError(run, "does not say what it was trained on", fix="Name a data file with data= (--data).")
    return data if isinstance(data, DataFile) else DataFile(data or trained["file"]), trained.get("frame_stride", 1)


def write_evaluation(found: Evaluation, run: Path, file: DataFile, *, own: bool) -> Path:
    """All numbers as JSON in the run folder, under a name that tells what is not usual.

    Args:
        own: whether the file is the one of the training.
    """
    usual = own and found.split == "test"
    out = run / ("evaluation.json" if usual else f"evaluation_{file.path.stem}_{found.split}.json")
    replace_file(out, found.model_dump_json(indent=1).encode())
    return out


def check_fits(surrogate: Surrogate, file: DataFile) -> None:
    """The file has the surrogate's dimension, fields, features, node types and cells; another box is only warned of."""
    trained, given = surrogate.description, file.description
    if given.box.dim != trained.box.dim:
        raise FileError(file.path, f"is {given.box.dim}-D, and the surrogate is {trained.box.dim}-D", fix="Choose another.")
    wanted = {"fields": (trained.fields, given.fields)}
    if surrogate.task == "steady" and surrogate.translator.feature_statistics is not None:
        wanted["features"] = (trained.features, given.features)
    for part, (needed, known) in wanted.items():
        names, there = [field.name for field in needed], [field.name for field in known]
        if not set(names) <= set(there) or (part == "features" and names != there):
            raise FileError(
                file.path,
                f"holds {', '.join(there) or 'none'}, and the surrogate was trained on {', '.join(names)}",
                part=part,
                fix="Choose a file with the same names.",
            )
    for kind, names in surrogate.conditions.items():
        there = given.conditions[kind]
        for name in names:
            if name not in there:
                raise FileError(
                    file.path,
                    f"holds {', '.join(there) or 'none'}, and the surrogate was trained with {', '.join(names)}",
                    part=kind,
                    fix=suggestion(name, list(there)) if there else "Choose a file with the same names.",
                )
    if surrogate.takes_node_types and "node_type" not in file.mesh_arrays:
        raise FileError(file.path, "has no node types, and the surrogate was trained with them", fix="Choose another file.")
    if surrogate.takes_cells and "cells" not in file.mesh_arrays:
        raise FileError(file.path, "has no cells, and the surrogate was trained with them", fix="Choose another file.")
    if given.box != trained.box:
        warn(
            f"{file.path}: its box is {corners(given.box)}, and the surrogate was trained in {corners(trained.box)}, whose "
            "coordinates are used: it extrapolates outside, and lengths have to be in the same unit.",
            TrainingRangeWarning,
        )


class _DriftSums:
    """Integrals of the conserved fields while the batches pass by, and the solver's seconds, which stand beside the cells."""

    def __init__(self, surrogate: Surrogate, data: Dataset) -> None:
        self._data = data
        description = data.description
        self._names = list(description.conserved) if surrogate.task == "rollout" else []
        self._places = [data.fields.index(name) for name in self._names]
        self._shared = None if description.points is None else self._weights(description.points, description.cells)
        self._kind: Literal["mean over points", "cell measures"] = "mean over points"
        self._drifts: list[Tensor] = []
        self.solver_seconds: list[float] = []

    def add(self, batch: Batch, answer: Tensor) -> None:
        weights = []
        for index in batch.samples.tolist():
            found = self._data.file.trajectory(index, slice(0, 1))
            self.solver_seconds.append(found.seconds)
            weights.append(self._shared if found.points is None else self._weights(found.points, found.cells))
        for position, weight in enumerate(weights if self._names else ()):
            real = slice(None) if batch.mask is None else batch.mask[position]
            truth = batch.fields[position][:, real][..., self._places].double()
            predicted = answer[position][:, real][..., self._places]
            if weight is None:
                weight = torch.full((truth.shape[1],), 1 / truth.shape[1], dtype=torch.float64)
            else:
                self._kind = "cell measures"
            start, size = (torch.einsum("p,pc->c", weight, values) for values in (truth[0], truth[0].abs()))
            later = torch.einsum("p,ktpc->ktc", weight, torch.stack([predicted, truth[1:]]))
            drift = torch.where(torch.isfinite(later), (later - start).abs(), torch.inf)
            self._drifts.append(torch.where(size > 0, drift / size, torch.nan))

    def found(self) -> tuple[Drift, ...]:
        if not self._drifts:
            return ()
        drifts = torch.stack(self._drifts)
        mean, zero = drifts.nanmean(dim=0).mT.tolist(), drifts.isnan().all(dim=(1, 2)).sum(dim=0).tolist()
        return tuple(
            Drift(
                field=name,
                integral=self._kind,
                prediction=tuple(mean[0][place]),
                truth=tuple(mean[1][place]),
                zero_starts=zero[place],
            )
            for place, name in enumerate(self._names)
        )

    def _weights(self, points: np.ndarray, cells: np.ndarray | None) -> Tensor | None:
        if cells is None or not self._names:
            return None
        found = cell_weights(self._data.box.to_unit(points), cells, self._data.description.periodic)
        return None if found is None or not found.sum() > 0 else torch.from_numpy(found / found.sum())


def answers(surrogate: Surrogate, batch: Batch) -> Tensor:
    """Physical values of all frames that are scored, on the CPU; getting there waits for the device."""
    if surrogate.task != "autoencoder":
        return surrogate.predicted(batch).cpu().double()
    single = (
        dataclasses.replace(batch, fields=batch.fields[:, frame : frame + 1], times=batch.times[:1])
        for frame in range(batch.fields.shape[1])
    )
    return torch.cat([surrogate.predicted(frame) for frame in single], dim=1).cpu().double()


def _known_in_advance(surrogate: Surrogate, fields: Tensor, target: Tensor) -> Tensor:
    if surrogate.task == "rollout":
        return fields[:, :1].expand_as(target)
    return fields.new_tensor(surrogate.translator.statistics.mean).expand_as(target)


def for_surrogate(surrogate: Surrogate, data: Dataset, batch: Batch) -> Batch:
    """The batch in the frames and in the unit coordinates of the surrogate, on its device."""
    box, points = surrogate.description.box, batch.points
    if box != data.box:
        points = torch.from_numpy(box.to_unit_inside(data.box.to_physical(points.double()).numpy())).float()
    steps = surrogate.in_frames(data.times - data.times[0])
    changed: dict[str, Tensor] = {"points": points, "times": torch.tensor(steps, dtype=torch.float64)}
    for kind, names in surrogate.conditions.items():
        values, there = getattr(batch, kind), data.description.conditions[kind]
        if values is not None and names and names != there:
            changed[kind] = values[..., [there.index(name) for name in names]]
    if batch.signal_times is not None and data.spacing != surrogate.translator.spacing:
        changed["signal_times"] = batch.signal_times * (data.spacing / surrogate.translator.spacing)
    return dataclasses.replace(batch, **changed).to(surrogate.device)


def _timing(surrogate: Surrogate, measured: list[float], solver: list[float], batch_size: int) -> Timing:
    known = [seconds for seconds in solver if math.isfinite(seconds)]
    ours, theirs = float(np.median(measured)), float(np.median(known)) if known else None
    return Timing(
        seconds=ours,
        solver_seconds=theirs,
        speedup=None if theirs is None else theirs / ours,
        batch_size=batch_size,
        device=str(surrogate.device),
        threads=torch.get_num_threads(),
    )


def _spectral_grid(data: Dataset) -> tuple[int, ...] | None:
    """The file's grid, where it is full, uniform and periodic along all axes."""
    shape, periodic = data.description.grid_shape, data.description.periodic
    if shape is None or data.points is None or not all(periodic) or math.prod(shape) != len(data.points):
        return None
    if len(shape) != data.points.shape[1]:
        return None
    uniform = tensor_grid(*(np.arange(n) / n for n in shape))
    points = data.points.double().numpy()
    return tuple(shape) if np.allclose(points - points[0], uniform, atol=1e-5) else None


def check_times(surrogate: Surrogate, file: DataFile) -> None:
    task, frames = surrogate.task, len(file.times)
    if (task == "rollout" and frames < 2) or (task == "steady" and frames > 1):
        wanted = "at least 2 frames, the first of which is given" if task == "rollout" else "a steady problem, one frame"
        raise FileError(file.path, f"the surrogate needs {wanted}, got {frames}", part="times", fix="Choose another file.")
    trained, asked = surrogate.frame_times[-1], float(file.times[-1] - file.times[0])
    if task == "rollout" and asked > trained * (1 + 1e-6) and file.fingerprint != surrogate.description.provenance.get("data"):
        warn(
            f"{file.path}: its times reach {asked:g} after the first; the surrogate was trained to {trained:g}.",
            TrainingRangeWarning,
        )


def _first_nonfinite(batch: Batch, answer: Tensor) -> dict[int, int]:
    """By trajectory that diverged: its first frame that is not finite."""
    wrong = (~torch.isfinite(answer)).flatten(2).any(dim=2)
    return {int(batch.samples[place]): int(wrong[place].int().argmax()) for place in wrong.any(dim=1).nonzero()[:, 0].tolist()}


def _check_finite(batch: Batch, file: DataFile) -> None:
    if not bool(torch.isfinite(batch.fields).all()):
        raise FileError(
            file.path,
            "hold numbers that are not finite",
            part=f"trajectories {batch.samples.tolist()}",
            fix="Run `calm check` on the file to see where.",
        )
