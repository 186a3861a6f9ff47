"""The surrogate: a model with everything needed to use it in physical units, as a folder that anyone can load."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calm_pde.data.dataset import Dataset
from calm_pde.data.statistics import ParameterStatistics, Statistics, condition_statistics
from calm_pde.errors import ConfigError, DivergedError, FileError, InputError, TrainingRangeWarning, warn
from calm_pde.files.folders import MANIFEST, Folder, recover, write_folder
from calm_pde.geometry import Box
from calm_pde.models import MODELS, OURS, Model, ModelConfig
from calm_pde.models.size import num_parameters
from calm_pde.notebook import html_table
from calm_pde.records.arrays import finite_numbers
from calm_pde.records.batch import Batch
from calm_pde.records.description import Description, Field, Spelling
from calm_pde.surrogate.cells import given_cells
from calm_pde.surrogate.differentiable import Differentiable
from calm_pde.surrogate.nearness import checked_outside, far_from_mesh, said_already, warn_few, warn_outside
from calm_pde.surrogate.told import Door, Told, warn_of_range
from calm_pde.surrogate.translator import Translator
from calm_pde.types import Float, Tensor

_ROUNDING = 1e-6  # of a value: what float32 may have done to a coordinate
_WHOLE = 1e-6  # of a frame, or of a time in frames beyond the first: what is so near to a whole number of frames is one
_LATER = ("name", "targets", "parameters", "conserved", "grid_shape", "times")
_LATEST = ("parameter_statistics", "signal_statistics", "fewest_points")
"""In a folder where there is something to tell."""


class Card(Spelling):
    """What stands in surrogate.json beside the weights; it spells the description of the data too."""

    kind: str
    model: dict[str, Any]
    fields: tuple[Field, ...]
    features: tuple[Field, ...] = ()
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    periodic: tuple[bool, ...]
    spacing: float
    """Physical time of one frame."""
    num_frames: int
    """Frames of a training trajectory, the first included."""
    statistics: Statistics
    feature_statistics: Statistics | None = None
    parameter_statistics: ParameterStatistics | None = None
    signal_statistics: Statistics | None = None
    fewest_points: int | None = None
    """Of a training trajectory."""
    node_types: dict[int, str] = {}  # noqa: RUF012 - pydantic copies it
    metrics: dict[str, Any] = {}  # noqa: RUF012
    provenance: dict[str, Any] = {}  # noqa: RUF012
    """Recipe, data fingerprint, seed, versions."""
    name: str = ""
    targets: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    conserved: tuple[str, ...] = ()
    grid_shape: tuple[int, ...] | None = None
    times: tuple[float, ...] = ()
    """Physical times of the frames, as the data have them."""

    @property
    def box(self) -> Box:
        return Box(self.lower, self.upper, self.periodic)

    @property
    def description(self) -> Description:
        """The data that the surrogate was trained on; of an old folder the times are those of evenly spaced frames."""
        times = np.array(self.times) if self.times else self.spacing * np.arange(self.num_frames)
        return self.described(self.box, times, provenance=self.provenance)

    @property
    def unwritten(self) -> set[str]:
        return super().unwritten | {name for name in (*_LATER, *_LATEST) if not getattr(self, name)}

    def written(self) -> dict[str, Any]:
        """As it stands in the file."""
        return self.model_dump(mode="json", exclude=self.unwritten)


def card_of(
    kind: str,
    config: ModelConfig,
    dataset: Dataset,
    statistics: tuple[Statistics, Statistics | None],
    provenance: dict[str, Any],
) -> Card:
    """The card of a model trained on a data set."""
    description, conditions = dataset.description, condition_statistics(dataset)
    return Card(
        kind=kind,
        model=config.model_dump(mode="json"),
        spacing=description.spacing,
        num_frames=len(description.times),
        times=tuple(description.times.tolist()),
        statistics=statistics[0],
        feature_statistics=statistics[1],
        parameter_statistics=conditions[0],
        signal_statistics=conditions[1],
        fewest_points=int(dataset.file.num_points[dataset.indices].min()),
        provenance=provenance,
        **description.spelled,
    )


class Surrogate:
    """A trained model in physical units and coordinates: numpy in, numpy out.

    `description` says what data it was trained on, `translator` is the way from such data to the model and back.
    """

    def __init__(self, model: Model, card: Card) -> None:
        self.model, self.card, self.description = model, card, card.description
        self.translator = Translator(
            model.config,
            card.statistics,
            card.spacing,
            card.feature_statistics,
            card.parameter_statistics,
            card.signal_statistics,
            self.description.prescribed,
        )
        self._door = Door(self.description, self.conditions, self.translator)

    def __repr__(self) -> str:
        data, frame = self.description, self.translator.spacing
        task = f"{len(data.times) - 1} frames of {frame:g} each" if self.task == "rollout" else self.task
        error = self.card.metrics.get("validation")
        words = [
            f"{self.card.kind} of {num_parameters(self.model):,} parameters",
            f"{', '.join(map(str, data.fields))} in {data.box.dim}-D",
            task,
            *([f"validation error {error:.4f}"] if error is not None else []),
        ]
        return f"Surrogate({'; '.join(words)})"

    def _repr_html_(self) -> str:
        data, told = self.description, self.conditions
        frames = f"{len(data.times) - 1} of {self.translator.spacing:g} each" if self.task == "rollout" else self.task
        rows = {
            "model": f"{self.card.kind}, {num_parameters(self.model):,} parameters",
            "fields": ", ".join(map(str, data.fields)),
            "frames": frames,
            **{kind: ", ".join(names) for kind, names in told.items()},
            "validation error": self.card.metrics.get("validation", ""),
        }
        return html_table(f"Surrogate of {data.name or 'a data set'} in {data.box.dim}-D", rows)

    @property
    def task(self) -> str:
        return self.translator.task

    @property
    def conditions(self) -> dict[str, tuple[str, ...]]:
        """Names of the parameters, signals and features that the model is told beside a state, in its order."""
        told = self.description.conditions
        return {kind: names if getattr(self.model.config, kind) else () for kind, names in told.items()}

    @property
    def takes_node_types(self) -> bool:
        """Whether they are told to the model, or tell where a field is prescribed."""
        return self.translator.takes_node_types or any(known.node_types for known in self.translator.prescribed)

    @property
    def takes_cells(self) -> bool:
        """Whether the model reads the edges of a mesh from its cells."""
        return self.translator.model.cells

    @property
    def frame_times(self) -> np.ndarray:
        """Evenly spaced frames, as many as in training: physical, from the initial state, which is the first."""
        return self.translator.spacing * np.arange(len(self.description.times))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    def save(self, path: str | Path) -> None:
        write_folder(Path(path), {"weights": dict(self.model.state_dict())}, {"surrogate": self.card.written()})

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | torch.device | None = None) -> Surrogate:
        """From a surrogate folder, or from the run folder that holds one, onto a device. Nothing in it is executed."""
        path = Path(path)
        inner = path / "surrogate"
        recover(inner)
        if inner.is_dir():
            path = inner
        if not path.is_dir():
            raise FileError(path, "there is no such folder", fix="Give a run folder, or the surrogate folder in it.")
        if not any((path / name).exists() for name in (MANIFEST, "surrogate.json")):
            fix = "A run has one from its first validated epoch on; one that stopped before goes on with the same `calm train`."
            raise FileError(path, "holds no surrogate", fix=fix)
        folder = Folder(path)
        try:
            card = Card.model_validate(folder.document("surrogate"))
            if card.kind not in MODELS:
                raise ConfigError(f"kind: there is no model {card.kind!r}")
            model = MODELS[card.kind].model_validate(card.model).build()
        except ConfigError as error:
            raise FileError(
                path / "surrogate.json", str(error), fix="It was written by another version, or damaged."
            ) from error
        load_weights(model, folder.tensors("weights"), path / "weights.safetensors")
        return cls(on_device(model.eval(), device), card)

    @torch.no_grad()
    def rollout(self, batch: Batch) -> Float[Tensor, "batch time point channel"]:
        """All frames of each window in physical units, the given one as the model sees it."""
        given = self.translator.inputs(batch, self.dtype)
        with said_already():
            if self.task == "rollout":
                out = self.model.rollout(given.values, given.points, batch.times[1:].tolist(), **given.told)
            else:
                out = self.model(given.values, given.points, **given.told)
        return self.translator.with_given(self.translator.physical(out), batch)

    def predicted(self, batch: Batch) -> Float[Tensor, "batch time point channel"]:
        """The frames after the first of each window (all of it for a steady problem or an autoencoder), in physical units."""
        return self.rollout(batch)[:, 1 if self.task == "rollout" else 0 :]

    def solve(
        self,
        initial: Any,
        points: Any,
        times: Sequence[float] | np.ndarray | None = None,
        queries: Any = None,
        node_type: Any = None,
        allow_nonfinite: bool = False,
        *,
        parameters: Any = None,
        signals: Any = None,
        features: Any = None,
        prescribed: Any = None,
        cells: Any = None,
        outside: str = "warn",
    ) -> Any:
        """The fields at later times, (time, query, channel), from the state (point, channel) on the points (point, dim).

        With a batch axis on `initial` or on what is told beside it, with it; lists of arrays (each on its own points) give a
        list. A steady surrogate takes features as `initial` (None: the coordinates) and no times.

        Args:
            times: physical, measured from the initial state, > 0, strictly increasing; by default the trained frames.
            queries: where to answer; by default at the points.
            allow_nonfinite: give back an answer that blew up as it is, instead of an error that says when it did.
            parameters: {name: number}, of a surrogate that was trained with them, as all that follows.
            signals: {name: (times, values)}, with times from the initial state on, at least to the last that is asked; or
                {name: values} at the frames of the training; linear between. A number is a level.
            features: (point, feature), or {name: (point,)}.
            prescribed: {field: (time, point)} at the times that are asked; the answer at points where it is prescribed.
            cells: (cell, corner), the points at the corners of each cell, of a surrogate that was trained with their edges.
            outside: what becomes of queries far from every point of the mesh, see `far_queries`: told of in a warning, NaN, or
                answered without a word.
        """
        checked_outside(outside)
        if self.task == "steady" and initial is None:
            initial, features = features, None
        told = Told(parameters, signals, features, prescribed)
        if isinstance(points, list | tuple) and len(points) and finite_numbers("points", points[0]).ndim == 2:
            meshes = {"points": points, "node_type": node_type, "cells": cells}
            return self._solve_list(initial, meshes, times, queries, allow_nonfinite, told, outside)
        cloud, asked = self._unit("points", points), None if queries is None else self._unit("queries", queries)
        state, steps = self._state(initial, points), self._steps(times)
        batch, single = self._batch(state, cloud, self._codes(node_type), told, steps, self._corners(cells, cloud))
        given = self.translator.inputs(batch, self.dtype)
        wanted, places = self._asked(steps)
        far = None if queries is None else self._far(points, queries, outside)
        with torch.no_grad(), said_already():
            found = self.model(given.values, given.points, queries=asked, **given.told, **wanted)[:, places]
        return self._answer(found, None if queries is not None else batch, times, single, allow_nonfinite, far)

    def _batch(
        self,
        state: Tensor,
        points: Tensor,
        node_type: Tensor | None,
        told: Told,
        steps: list[float],
        cells: Tensor | None = None,
    ) -> tuple[Batch, bool]:
        """What a user gives as a data set would, and whether it is of one sample without a batch axis.

        Windows of one frame, and where something is prescribed of those that are asked; of a steady problem the features.
        """
        beside = {name: self._tensor(values) for name, values in self._door.checked(told, points.shape[-2], steps).items()}
        batch = self._assembled(state, points, node_type, beside, steps, cells)
        self._check_prescribed(batch)
        return batch, state.ndim == points.ndim == 2 and not told.batched

    def _assembled(
        self,
        state: Tensor,
        points: Tensor,
        node_type: Tensor | None,
        beside: dict[str, Tensor],
        steps: list[float],
        cells: Tensor | None = None,
    ) -> Batch:
        """Tensors as `Batch` has them; what is for all samples has one row, or no axis of samples."""
        states, steady = state if state.ndim == 3 else state[None], self.task == "steady"
        count = batch_size(len(states), points, beside)
        states, beside = (
            states.expand(count, -1, -1),
            {name: rows.expand(count, *rows.shape[1:]) for name, rows in beside.items()},
        )
        later = beside.pop("prescribed", None)
        first = states.new_zeros(count, 1, points.shape[-2], 0) if steady else states[:, None]
        return Batch(
            fields=first if later is None else later if steady else torch.cat([first, later], dim=1),
            times=torch.tensor([0.0] if later is None or steady else [0.0, *steps], dtype=torch.float64),
            points=points,
            samples=torch.arange(count),
            starts=torch.zeros(count, dtype=torch.int64),
            node_type=node_type,
            cells=cells,
            **({"features": states} if steady else {}) | beside,
        )

    def _check_prescribed(self, batch: Batch) -> None:
        """What is prescribed is a number."""
        known = self.translator.known(batch)
        wrong = 0 if known is None else int((~torch.isfinite(batch.fields) & known).sum())
        if wrong:
            fix = "Give values at all times that are asked, at the points where the field is prescribed."
            raise InputError("prescribed", expected="finite numbers", got=f"{wrong} that are not", fix=fix)

    def _answer(
        self,
        found: Tensor,
        batch: Batch | None,
        times: Any,
        single: bool,
        allow_nonfinite: bool,
        far: np.ndarray | None = None,
    ) -> np.ndarray:
        """What the model says, (batch, time, query, channel), in physical units; at its points as what is prescribed has it."""
        out = self.translator.physical(found)
        if batch is not None:
            out = self.translator.with_given(out, batch)
        out = out.cpu().numpy()
        if not allow_nonfinite:
            self._check_answers(out, self.asked_times(times), single)
        if far is not None:
            out = np.where(np.broadcast_to(far, (len(out), far.shape[-1]))[:, None, :, None], np.nan, out).astype(out.dtype)
        return out[0] if single else out

    def _check_answers(self, out: np.ndarray, times: np.ndarray, single: bool) -> None:
        for number, answer in enumerate(out):
            check_answer(answer, times, None if single else number)

    def _far(self, points: Any, queries: Any, outside: str) -> np.ndarray | None:
        """Which queries are to be answered with NaN, since they lie far from the mesh; a warning, where it is wanted."""
        cloud, asked = finite_numbers("points", points), finite_numbers("queries", queries)
        far = far_from_mesh(cloud, asked, self.description.box, outside)
        return far if outside == "nan" else None

    def bake(self, points: Any, queries: Any = None, node_type: Any = None, outside: str = "warn") -> BakedSurrogate:
        """Freezes all that depends on the geometry alone, for many solves on one mesh."""
        checked_outside(outside)
        return BakedSurrogate(self, points, queries, node_type, outside)

    def differentiable(
        self,
        points: Any,
        queries: Any = None,
        times: Sequence[float] | np.ndarray | None = None,
        node_type: Any = None,
        allow_nonfinite: bool = False,
        cells: Any = None,
    ) -> Differentiable:
        """`solve` as a `torch.nn.Module` on these points, physical, through which objectives are differentiated by the initial
        state and by all that is told beside it, and by queries. It is a snapshot: what becomes of the surrogate afterwards
        changes it no more."""
        return Differentiable(self, points, queries, times, node_type, allow_nonfinite, cells)

    def _asked(self, steps: list[float]) -> tuple[dict[str, Any], slice | list[int]]:
        """What to ask the model for, and where the steps stand in its answer."""
        if self.task != "rollout":
            return {}, slice(None)
        if steps == [float(step) for step in range(1, len(steps) + 1)]:
            return {"num_steps": len(steps)}, slice(None)
        if self.model.config.abilities.any_times:
            return {"times": steps}, slice(None)
        frame = self.translator.spacing
        for step in steps:
            if step != round(step):
                raise InputError(
                    "times",
                    expected=f"whole frames, multiples of {frame:g}, since {self.card.kind} has no others",
                    got=f"{step * frame:g}, which is {step:g} frames",
                    fix=f"Ask at whole frames, or train a model that is continuous in time ({OURS}).",
                )
        return {"num_steps": round(steps[-1])}, [round(step) - 1 for step in steps]

    def asked_times(self, times: Sequence[float] | np.ndarray | None = None) -> np.ndarray:
        """The times that `solve` answers, physical, from the initial state: those given, or the trained frames."""
        if self.task != "rollout":
            if times is not None:
                raise InputError("times", expected="none of a surrogate without time", got=str(times), fix="Leave times out.")
            return np.zeros(0)
        if times is None:
            return self.frame_times[1:]
        found = finite_numbers("times", times)
        if found.ndim != 1 or not len(found) or (np.diff(found, prepend=0.0) <= 0).any():
            raise InputError(
                "times",
                expected="strictly increasing numbers > 0, physical, from the initial state",
                got=str(times),
                fix="Sort them, drop repetitions and leave out 0: that is the state itself.",
            )
        self._check_apart(found)
        return found

    def _check_apart(self, times: np.ndarray) -> None:
        """Times that are the same frame but for rounding are refused in the numbers that were given."""
        steps, frame = self.in_frames(times), self.translator.spacing
        for place, (early, late) in enumerate(itertools.pairwise([0.0, *steps])):
            if late <= early:
                before = [0.0, *times.tolist()][place]
                raise InputError(
                    "times",
                    expected=f"times at least {2 * _WHOLE * max(1.0, late) * frame:.3g} apart, and from 0",
                    got=f"{before!r} and {float(times[place])!r}",
                    fix=f"A frame takes {frame:g}, and what is nearer counts as rounding; leave one of them out.",
                )

    def in_frames(self, times: np.ndarray) -> list[float]:
        """Physical times from the initial state in frames; what is a whole number but for rounding is one."""
        steps = (times / self.translator.spacing).tolist()
        return [float(round(step)) if abs(step - round(step)) < _WHOLE * max(1, step) else step for step in steps]

    def _steps(self, times: Sequence[float] | np.ndarray | None) -> list[float]:
        """Times in frames; those beyond the trained horizon are extrapolation, and said so."""
        steps, last, frame = self.in_frames(self.asked_times(times)), len(self.description.times) - 1, self.translator.spacing
        if steps and steps[-1] > last * (1 + 1e-6):
            warn(
                f"times reach {steps[-1] * frame:g}; the surrogate was trained to {last * frame:g} "
                "after the initial state, and errors may grow beyond.",
                TrainingRangeWarning,
            )
        return steps

    def _state(self, initial: Any, points: Any) -> Tensor:
        """A user's initial state, or features, physical, once they are found fit."""
        stats, names = self.translator.given_statistics, self.description.fields
        if self.task == "steady":
            if initial is None:
                initial = np.asarray(points)
            names = self.description.features
        values, count = finite_numbers("initial", initial), np.shape(points)[-2]
        channels = len(names) if names else self.description.box.dim
        if values.ndim not in (2, 3) or values.shape[-2:] != (count, channels):
            expected = ", ".join(field.name for field in names) or "coordinates"
            raise InputError(
                "initial",
                expected=f"shape (point, channel) = ({count}, {channels}) with channels {expected}",
                got=f"shape {values.shape}",
                fix="Give one value per point and channel, in physical units.",
            )
        if stats is None:
            self._check_coordinates(values, np.asarray(points, dtype=np.float64))
            return self._tensor(values)
        warn_of_range("initial", values, stats)
        return self._tensor(values)

    def _check_coordinates(self, initial: np.ndarray, points: np.ndarray) -> None:
        """A model that is given coordinates is given those of its points."""
        box, fits = self.description.box, points.ndim == 2 or points.shape == initial.shape
        away = _ROUNDING * (np.array(box.upper) - np.array(box.lower)) + _ROUNDING * np.abs(points)
        if not fits or (np.abs(initial - points) > away).any():
            raise InputError(
                "initial",
                expected="none, or the points themselves, since the surrogate was trained on coordinates alone",
                got="others" if fits else f"shape {initial.shape} for points of shape {points.shape}",
                fix="Leave initial out.",
            )

    def _unit(self, name: str, points: Any) -> Tensor:
        return self._tensor(self._coordinates(name, points))

    def _coordinates(self, name: str, points: Any) -> np.ndarray:
        """A user's physical coordinates as those of the unit box, in float64, once they are found fit."""
        values, dim = finite_numbers(name, points), self.description.box.dim
        if values.ndim not in (2, 3) or values.shape[-1] != dim or not values.size:
            raise InputError(
                name,
                expected=f"shape (point, {dim}) or (batch, point, {dim}), not empty",
                got=f"shape {values.shape}",
                fix=f"The surrogate lives in {dim}-D; give the physical coordinates of each point.",
            )
        unit = self.description.box.to_unit_inside(values)
        warn_outside(name, values, unit, self.description.box)
        if name == "points" and self.card.fewest_points is not None:
            warn_few(values.shape[-2], self.card.fewest_points)
        return unit

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(values), dtype=self.dtype, device=self.device)

    def _codes(self, node_type: Any) -> Tensor | None:
        """Node types that a user names: unlike those of a file, they are never left aside."""
        if node_type is None:
            return None
        values = finite_numbers("node_type", node_type)
        if (values != np.round(values)).any():
            raise InputError("node_type", expected="whole numbers", got="fractions", fix="Give the code of each point.")
        if not self.takes_node_types:
            fix = "Leave node_type out."
            raise InputError("node_type", expected="none, since the surrogate was trained without", got="some", fix=fix)
        return torch.as_tensor(values, dtype=torch.int64, device=self.device)

    def _corners(self, cells: Any, points: Tensor) -> Tensor | None:
        """Cells that a user names, of so many points."""
        found = given_cells(cells, self.takes_cells, points.shape[-2])
        return None if found is None else torch.from_numpy(found).to(self.device)

    def _solve_list(
        self,
        initial: Any,
        meshes: dict[str, Any],
        times: Any,
        queries: Any,
        allow_nonfinite: bool,
        told: Told,
        outside: str,
    ) -> list[np.ndarray]:
        """One after the other, each on its own of the meshes."""
        points = meshes.pop("points")
        given = {"initial": initial, "queries": queries, **meshes}
        lists: dict[str, Any] = {}
        for name, values in given.items():
            one_for_all = values is None or (name == "queries" and isinstance(values, np.ndarray) and values.ndim == 2)
            lists[name] = [values] * len(points) if one_for_all else values
            if not hasattr(lists[name], "__len__") or len(lists[name]) != len(points):
                got = len(lists[name]) if hasattr(lists[name], "__len__") else type(values).__name__
                raise InputError(
                    name, expected=f"{len(points)} arrays, one per mesh", got=str(got), fix="Give one for each mesh."
                )
        found = []
        names = ("initial", "queries", "node_type", "cells")
        for cloud, state, asked, kinds, cells in zip(points, *(lists[name] for name in names), strict=True):
            beside = vars(told.of(len(found), len(points))) | {"cells": cells}
            found.append(self.solve(state, cloud, times, asked, kinds, allow_nonfinite=True, outside=outside, **beside))
            if not allow_nonfinite:
                hidden = np.isnan(found[-1]).all(axis=(0, 2)) & (outside == "nan" and asked is not None)
                check_answer(found[-1][:, ~hidden], self.asked_times(times), len(found) - 1)
        return found


class BakedSurrogate:
    """A surrogate on one mesh: `fast.solve(initial, times)`."""

    def __init__(self, surrogate: Surrogate, points: Any, queries: Any, node_type: Any, outside: str) -> None:
        self.surrogate, self._cloud = surrogate, surrogate._unit("points", points)
        self.points = np.array(points)
        asked = None if queries is None else surrogate._unit("queries", queries)
        self._codes, self._own_queries = surrogate._codes(node_type), queries is not None
        self._far = None if queries is None else surrogate._far(points, queries, outside)
        with said_already():
            self.baked = surrogate.model.bake(self._cloud, asked, node_type=surrogate.translator.kinds(self._codes))

    def __repr__(self) -> str:
        return f"BakedSurrogate({self.surrogate!r} on points {self.points.shape})"

    def solve(
        self,
        initial: Any,
        times: Sequence[float] | np.ndarray | None = None,
        allow_nonfinite: bool = False,
        *,
        parameters: Any = None,
        signals: Any = None,
        features: Any = None,
        prescribed: Any = None,
    ) -> np.ndarray:
        """As `Surrogate.solve`, on the points and queries that were baked."""
        surrogate, state = self.surrogate, self.surrogate._state(initial, self.points)
        told, steps = Told(parameters, signals, features, prescribed), surrogate._steps(times)
        batch, single = surrogate._batch(state, self._cloud, self._codes, told, steps)
        given = surrogate.translator.inputs(batch, surrogate.dtype)
        asked, _ = surrogate._asked(steps)
        found = self.baked(given.values, **given.conditions, **asked)
        return surrogate._answer(found, None if self._own_queries else batch, times, single, allow_nonfinite, self._far)


def check_answer(answer: np.ndarray, times: np.ndarray, sample: int | None = None) -> None:
    """An answer (time, query, channel) is finite at all of its times, or an error says from which on it is not.

    Args:
        times: physical, from the initial state; none of a surrogate without time.
        sample: the number of the sample, where there are several.
    """
    wrong = np.flatnonzero(~np.isfinite(answer).all(axis=(1, 2)))
    if not len(wrong):
        return
    first = int(wrong[0])
    whose = "the answer" if sample is None else f"the answer to sample {sample}"
    when = f" at t = {times[first]:g} (time {first + 1:,} of {len(times):,})" if len(times) else ""
    raise DivergedError(
        f"solve: {whose} is not finite{when}. Ask for earlier times, give an initial state in the range of the training, or "
        "train further; with allow_nonfinite (--allow-nonfinite) it is given as it is."
    )


def on_device(model: Model, device: str | torch.device | None) -> Model:
    """The model where it is wanted; a device that is not there is named."""
    if device is None:
        return model
    try:
        return model.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        fix = "'cpu' is always there, 'cuda' where torch finds a GPU."
        raise InputError("device", expected="a device that torch can use", got=f"{device} ({reason})", fix=fix) from error


def batch_size(states: int, points: Tensor, beside: dict[str, Tensor]) -> int:
    """How many samples there are, where what is for all of them has one row."""
    counts = {"initial": states, **{name: len(rows) for name, rows in beside.items()}}
    counts |= {"points": len(points)} if points.ndim == 3 else {}
    most = max(counts.values())
    for name, count in counts.items():
        if count not in (1, most):
            most_of = next(other for other, number in counts.items() if number == most)
            fix = "Give as many of each, or one for all."
            raise InputError(name, expected=f"{most} samples, as {most_of} has", got=str(count), fix=fix)
    return most


def surrogate_of(run: Surrogate | str | os.PathLike[str]) -> Surrogate:
    """The surrogate itself, or the one in a run folder or surrogate folder."""
    return run if isinstance(run, Surrogate) else Surrogate.load(run)


def load_weights(model: torch.nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Weights that fit the model exactly, and otherwise an error that names the first that does not."""
    wanted = model.state_dict()
    for name in sorted(wanted.keys() ^ weights.keys()):
        raise FileError(path, f"{name} is {'missing' if name in wanted else 'unknown to this model'}")
    for name, value in weights.items():
        if value.shape != wanted[name].shape or value.dtype != wanted[name].dtype:
            raise FileError(
                path,
                f"{name}: expected {wanted[name].dtype} {tuple(wanted[name].shape)}, got {value.dtype} {tuple(value.shape)}",
            )
    model.load_state_dict(weights)
