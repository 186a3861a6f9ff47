"""What a report tells of: a run's surrogate on a split of a data file, its samples from worst to best, its training."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from calm_pde.config import ConfigError
from calm_pde.data.dataset import Dataset
from calm_pde.data.storage import DataFile
from calm_pde.data.windows import Window
from calm_pde.errors import CalmError, FileError
from calm_pde.metrics.relative_l2 import relative_l2
from calm_pde.models import MODELS
from calm_pde.models.inside import LayerKernels
from calm_pde.records.batch import Batch
from calm_pde.records.inputs import Inputs
from calm_pde.report.tokens import TokenInfluence, token_influence
from calm_pde.surrogate.evaluate import answers, data_of, evaluate, for_surrogate
from calm_pde.surrogate.surrogate import Surrogate, surrogate_of
from calm_pde.train.checkpoint import load_newest
from calm_pde.train.config import Recipe, initial_model
from calm_pde.train.queries import QueryRecord
from calm_pde.train.record import read_record
from calm_pde.types import Tensor

Rank = Literal["worst", "median", "best"]

_UNNAMED = ("", "arrays")
_KEPT = 2**28  # bytes of answers that are kept from the evaluation; of the other samples they are computed again


@dataclass(frozen=True)
class Sample:
    """One trajectory, truth and prediction (time, point, channel) on its points (point, dim), physical."""

    trajectory: int
    rank: Rank | None
    error: float
    points: np.ndarray
    cells: np.ndarray | None
    truth: np.ndarray
    prediction: np.ndarray
    frame_errors: np.ndarray
    """(channel, time), relative L2."""


@dataclass(frozen=True)
class LayerPath:
    """Where the query points of a layer were, (snapshot, query, dim) physical, from the start to the saved weights."""

    name: str
    epochs: tuple[int, ...]
    path: np.ndarray
    fixed: bool


@dataclass(frozen=True)
class Training:
    """Numbers of each epoch; `validation` of those that have it."""

    epochs: tuple[int, ...]
    loss: tuple[float | None, ...]
    validation: tuple[tuple[int, float], ...]
    learning_rate: tuple[float, ...]
    length: tuple[int, ...]


class Findings:
    """A run looked at: evaluated on construction, samples and analyses when asked for.

    Args:
        run: a run folder; or a surrogate folder, or a surrogate, of which training is not known.
        data: another file than the one it was trained on.
        progress: called with what is done and what there is to do, in samples.
    """

    def __init__(
        self,
        run: Surrogate | str | os.PathLike[str],
        data: DataFile | str | os.PathLike[str] | None = None,
        split: str = "test",
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.surrogate = surrogate_of(run)
        self.run = None if isinstance(run, Surrogate) else Path(run)
        file, stride = data_of(self.surrogate, run, data)
        self._sums: Tensor | None = None
        self._count = 0
        self._answers: dict[int, Tensor] = {}
        self._room = _KEPT
        self.evaluation = evaluate(
            self.surrogate, file, split=split, frame_stride=stride, progress=progress, observe=self._observe
        )
        self.data = Dataset(file, split, fields=self.surrogate.description.field_names, frame_stride=stride)
        self.times = self.data.times - self.data.times[0]
        self.given = 1 if self.surrogate.task == "rollout" else 0

    @property
    def title(self) -> str:
        """Of the data set and the model: arrays that nobody named go by their file."""
        data, kind = self.data.file, self.surrogate.card.kind
        name = data.description.name
        return f"{data.path.stem if name in _UNNAMED else name}: {MODELS[kind].title or kind}"

    def _observe(self, batch: Batch, answer: Tensor) -> None:
        self._keep(batch, answer)
        if batch.points.ndim == 3:
            return
        wrong = (answer - batch.fields.double()[:, -answer.shape[1] :]).abs().mean(dim=1)
        finite = wrong[torch.isfinite(wrong).flatten(1).all(dim=1)]
        self._count += len(finite)
        self._sums = finite.sum(dim=0) if self._sums is None else self._sums + finite.sum(dim=0)

    def _keep(self, batch: Batch, answer: Tensor) -> None:
        """The answers of a batch by trajectory, without padding, as long as there is room."""
        own = answer.to(self.surrogate.dtype)
        self._room -= own.nbytes
        if self._room >= 0:
            masks = [None] * len(own) if batch.mask is None else list(batch.mask)
            cut = [one if mask is None else one[:, mask] for one, mask in zip(own, masks, strict=True)]
            self._answers = self._answers | dict(zip(batch.samples.tolist(), cut, strict=True))

    @property
    def error_map(self) -> np.ndarray | None:
        """(point, channel): the mean of |û − u| over frames and the samples that stayed finite, where one mesh serves all."""
        return None if self._sums is None else (self._sums / self._count).numpy()

    @property
    def trained_until(self) -> float | None:
        """The trained horizon, physical, from the initial state."""
        return float(self.surrogate.frame_times[-1]) if self.surrogate.task == "rollout" else None

    @cached_property
    def ranked(self) -> list[tuple[int, Rank | None]]:
        """Positions in the split: worst, median, best, then the others in order; without those that diverged.

        A sample whose truth is exactly zero has no relative error, and is one of the others.
        """
        errors = np.array(self.evaluation.sample_errors)
        order = [int(place) for place in np.argsort(errors, kind="stable") if math.isfinite(errors[place])]
        shown = [place for place, error in enumerate(errors) if not math.isinf(error)]
        if not shown:
            whose = self.surrogate if self.run is None else self.run
            raise CalmError(f"{whose}: all samples diverged, so there is nothing to show. Train again, with smaller steps.")
        named: dict[int, Rank] = {}
        if order:
            named[order[-1]] = "worst"
            named.setdefault(order[len(order) // 2], "median")
            named.setdefault(order[0], "best")
        return [*named.items(), *((place, None) for place in shown if place not in named)]

    def sample(self, position: int, rank: Rank | None = None) -> Sample:
        """Truth and prediction of one trajectory of the split; the given frame as the model sees it."""
        batch = next(self.data.batches([[Window(position, 0, self.data.num_frames)]]))
        given = for_surrogate(self.surrogate, self.data, batch)
        found = self._answer(given)
        truth = batch.fields.double()
        own = self.data.file.trajectory(int(batch.samples[0]), slice(0, 1))
        shared = self.data.file.description
        points, cells = (shared.points, shared.cells) if own.points is None else (own.points, own.cells)
        return Sample(
            trajectory=int(batch.samples[0]),
            rank=rank,
            error=self.evaluation.sample_errors[position],
            points=np.asarray(points),
            cells=cells,
            truth=truth[0].numpy(),
            prediction=found[0].numpy(),
            frame_errors=relative_l2(found, truth)[0].mT.numpy(),
        )

    def _answer(self, given: Batch) -> Tensor:
        """All frames of one trajectory, physical; from the evaluation where they are kept."""
        known = self._answers.get(int(given.samples[0]))
        if known is None:
            return self.surrogate.rollout(given).cpu().double() if self.given else answers(self.surrogate, given)
        if not self.given:
            return known[None].double()
        short = dataclasses.replace(given, fields=given.fields[:, :2], times=given.times[:2])
        first = self.surrogate.rollout(short)[:, :1].cpu().double()
        return torch.cat([first, known[None].double()], dim=1)

    @property
    def median(self) -> int:
        """The position of the median sample, of which the analyses tell."""
        return next((place for place, rank in self.ranked if rank == "median"), self.ranked[0][0])

    def influence(self, stored: np.ndarray, progress: Callable[[int, int], None] | None = None) -> TokenInfluence | None:
        """Of every latent token on the median sample, at the points `stored`; None for other models."""
        if not self.surrogate.model.config.abilities.shows_inside:
            return None
        given, points = self._median_inputs, self._median_points
        node_type = given.node_type
        return token_influence(
            self.surrogate,
            given.values[0],
            points,
            float(self._median_batch.times[-1]),
            queries=points[torch.from_numpy(stored)],
            node_type=None if node_type is None else node_type if node_type.ndim == 1 else node_type[0],
            conditions=given.conditions,
            progress=progress,
        )

    @cached_property
    def kernels(self) -> list[LayerKernels]:
        """Of every layer on the median sample's mesh; none for other models."""
        model = self.surrogate.model
        shown = model.config.abilities.shows_inside
        return model.kernel_weights(self._median_points, self.surrogate.description.box) if shown else []

    @cached_property
    def training(self) -> Training | None:
        record = None if self.run is None else self.run / "metrics.jsonl"
        if record is None or not record.exists():
            return None
        lines = read_record(record)
        ended = [line for line in lines if "mean_loss" in line]
        steps: dict[int, dict[str, Any]] = {line["epoch"] + 1: line for line in lines if "learning_rate" in line}
        ended = [line for line in ended if line["epoch"] in steps]
        return Training(
            epochs=tuple(line["epoch"] for line in ended),
            loss=tuple(line["mean_loss"] for line in ended),
            validation=tuple((line["epoch"], line["validation"]) for line in ended if line["validation"] is not None),
            learning_rate=tuple(steps[line["epoch"]]["learning_rate"] for line in ended),
            length=tuple(steps[line["epoch"]]["length"] for line in ended),
        )

    @cached_property
    def layers(self) -> list[LayerPath]:
        """Of every layer with query points of its own; start and end alone where the run has no record of them."""
        model, data = self.surrogate.model, self.surrogate.description
        if not model.config.abilities.shows_inside:
            return []
        record, last = self._record()
        found = []
        for layer in model.query_points():
            path = record.positions.get(layer.weights)
            kept = [place for place, epoch in enumerate(record.epochs) if epoch < last] if path is not None else []
            end = layer.positions.detach().cpu().double()[None]
            whole = end if path is None else torch.cat([path[kept].double(), end])
            home = torch.floor(whole[-1]) * torch.tensor(data.periodic)  # the image that ends inside the box
            epochs = (*(record.epochs[place] for place in kept), last)
            physical = data.box.to_physical(whole - home).numpy()
            found.append(LayerPath(layer.name, epochs, physical, not layer.learned))
        return found

    def _record(self) -> tuple[QueryRecord, int]:
        """Query points over training, and the epoch of the saved weights."""
        card = self.surrogate.card
        with suppress(FileError):  # of another version, or damaged: start and end are known nevertheless
            found = None if self.run is None else load_newest(self.run / "checkpoints")
            if found is not None:
                return QueryRecord(found[0].queries), card.metrics.get("epoch", found[0].position.epoch)
        record = QueryRecord()
        start = self._initial()
        if start is not None:
            record.add(0, start.state_dict())
        return record, card.metrics.get("epoch", 1)

    def _initial(self) -> torch.nn.Module | None:
        """The model before training, from its seed; None where there is none, or a mesh prior needs data that are gone."""
        provenance = self.surrogate.description.provenance
        try:
            seed = provenance["seed"]
            recipe = Recipe.model_validate(provenance["recipe"])
            data = Dataset(recipe.data.file, "train", fields=self.data.fields, frame_stride=recipe.data.frame_stride)
        except (KeyError, ConfigError, FileError):
            return None
        return initial_model(self.surrogate.model.config, data, seed)

    @cached_property
    def _median_batch(self) -> Batch:
        batch = next(self.data.batches([[Window(self.median, 0, self.data.num_frames)]]))
        return for_surrogate(self.surrogate, self.data, batch)

    @cached_property
    def _median_inputs(self) -> Inputs:
        return self.surrogate.translator.inputs(self._median_batch, self.surrogate.dtype)

    @property
    def _median_points(self) -> Tensor:
        points = self._median_inputs.points
        return points if points.ndim == 2 else points[0]
