"""A split of a data file as windows of tensors, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from calm_pde.config import suggestion
from calm_pde.data.storage import DataFile
from calm_pde.data.windows import Window, whole_windows
from calm_pde.errors import FileError, InputError
from calm_pde.geometry import Box
from calm_pde.notebook import html_table
from calm_pde.records.batch import Batch, padded, padded_signals
from calm_pde.records.trajectory import SPLITS, Split
from calm_pde.types import Tensor


class Dataset(TorchDataset[dict[str, Any]]):
    """One split of a data file; nothing is read before a window is asked for.

    Args:
        fields: names of the fields to take, in this order; by default the file's targets.
        frame_stride: take every so many-th frame.
        conditions: names of the parameters, signals and features to take; by default all of the file.
    """

    def __init__(
        self,
        file: DataFile | str | Path,
        split: str = "train",
        *,
        fields: Sequence[str] = (),
        frame_stride: int = 1,
        conditions: Sequence[str] | None = None,
    ) -> None:
        self.file = file if isinstance(file, DataFile) else DataFile(file)
        if split not in SPLITS:
            raise InputError("split", expected=f"one of {', '.join(SPLITS)}", got=repr(split), fix="Name a split of the file.")
        if frame_stride < 1 or (frame_stride > 1 and frame_stride >= len(self.file.times)):
            raise InputError(
                "frame_stride",
                expected=f"at least 1, and fewer than the {len(self.file.times)} frames of {self.file.path}",
                got=str(frame_stride),
                fix="1 takes every frame.",
            )
        self.split: Split = SPLITS[SPLITS.index(split)]
        self.indices = self.file.indices(self.split)
        if not len(self.indices):
            raise FileError(self.file.path, f"holds no {split} trajectories", fix="Generate or convert more samples.")
        self.frame_stride = frame_stride
        whole = self.file.description
        self._channels = self._places(tuple(fields) or whole.targets or whole.field_names)
        self.description = whole.of([whole.field_names[place] for place in self._channels], frame_stride)
        """Of the fields, conditions and frames that are taken."""
        self._conditions: dict[str, list[int]] = {}
        if conditions is not None:
            for kind, names in whole.conditions.items():
                self._conditions[kind] = [place for place, name in enumerate(names) if name in conditions]
            self.description = self.description.told(conditions)
        self.points = None if whole.points is None else self._unit(whole.points)
        self.node_type = None if whole.node_type is None else torch.from_numpy(whole.node_type)
        self.cells = None if whole.cells is None else _corners(whole.cells)

    @property
    def fields(self) -> tuple[str, ...]:
        return self.description.field_names

    @property
    def box(self) -> Box:
        return self.description.box

    @property
    def times(self) -> np.ndarray:
        return self.description.times

    @property
    def num_frames(self) -> int:
        return len(self.times)

    @property
    def spacing(self) -> float:
        return self.description.spacing

    @property
    def frame_times(self) -> np.ndarray:
        """The times in frames, from the first."""
        return self.in_frames(self.times)

    def in_frames(self, times: np.ndarray) -> np.ndarray:
        """Physical times in frames, from the first."""
        return (times - self.times[0]) / self.spacing

    @property
    def even(self) -> bool:
        return bool(np.allclose(self.frame_times, np.arange(self.num_frames), atol=1e-6))

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        frames = f"{self.num_frames} frame{'s' if self.num_frames > 1 else ''}"
        return f"Dataset({self.split} of {self.file.path}: {len(self)} trajectories of {frames}, {', '.join(self.fields)})"

    def _repr_html_(self) -> str:
        rows = {"trajectories": f"{len(self):,}"} | self.description.rows | {"file": self.file.path}
        return html_table(f"Dataset: {self.split} of {self.description.name}", rows)

    def __getitem__(self, window: Window | int) -> dict[str, Any]:
        """The tensors of one window; of the whole trajectory for a plain position."""
        if not isinstance(window, Window):
            window = Window(window, 0, self.num_frames)
        position, start, length = window
        if not (0 <= position < len(self) and start >= 0 and length >= 1 and start + length <= self.num_frames):
            raise InputError(
                "window",
                expected=f"frames within 0 … {self.num_frames - 1} of trajectories 0 … {len(self) - 1}",
                got=str(window),
                fix="Ask for a shorter window or an earlier start.",
            )
        step = self.frame_stride
        frames = slice(start * step, (start + length - 1) * step + 1, step)
        index = int(self.indices[position])
        found = self.file.trajectory(index, frames)
        item: dict[str, Any] = {"fields": _tensor(found.fields[..., self._channels]), "sample": index, "window": window}
        if found.points is not None:
            item["points"] = self._unit(found.points)
        if found.node_type is not None:
            item["node_type"] = torch.from_numpy(found.node_type)
        if found.cells is not None:
            item["cells"] = _corners(found.cells)
        if found.features is not None:
            item["features"] = _tensor(found.features)
        if found.parameters is not None:
            item["parameters"] = _tensor(found.parameters)
        if found.signals is not None and found.signal_times is not None:
            item["signals"] = _tensor(found.signals)
            item["signal_times"] = _tensor(self.in_frames(found.signal_times) - self.frame_times[start])
        return item | {kind: self.taken(kind, item[kind]) for kind in self._conditions if kind in item}

    def taken(self, kind: str, values: Any) -> Any:
        """Of all parameters, signals or features of the file (…, condition), array or tensor, those that are taken."""
        places = self._conditions.get(kind)
        return values if places is None else values[..., places]

    def collate(self, items: list[dict[str, Any]]) -> Batch:
        """Items as one batch; meshes of different size are padded and masked."""
        optional: dict[str, Tensor] = {}
        points = self.points
        if points is None:
            sizes = torch.tensor([len(item["points"]) for item in items])
            points = padded([item["points"] for item in items])
            if (sizes != points.shape[1]).any():
                optional["mask"] = torch.arange(points.shape[1]) < sizes[:, None]
            for name in ("node_type", "cells"):
                if name in items[0]:
                    optional[name] = padded([item[name] for item in items])
        else:
            shared = {"node_type": self.node_type, "cells": self.cells}
            optional |= {name: values for name, values in shared.items() if values is not None}
        if "features" in items[0]:
            optional["features"] = padded([item["features"] for item in items])
        if "parameters" in items[0]:
            optional["parameters"] = torch.stack([item["parameters"] for item in items])
        if "signals" in items[0]:
            rows = [(item["signals"], item["signal_times"]) for item in items]
            optional["signals"], optional["signal_times"] = padded_signals(rows)
        starts = [item["window"].start for item in items]
        times, first = self.frame_times, items[0]["window"]
        if not self.even and len(set(starts)) > 1:
            raise InputError(
                "windows", expected="one start per batch, since times are uneven", got=str(starts), fix="Group them by start."
            )
        return Batch(
            fields=padded([item["fields"] for item in items]),
            times=_tensor(times[first.start : first.start + first.length] - times[first.start]),
            points=points,
            samples=torch.tensor([item["sample"] for item in items]),
            starts=torch.tensor(starts),
            **optional,
        )

    def batches(self, batches: Sequence[Sequence[Window]] | None = None, workers: int = 0) -> Iterator[Batch]:
        """The batches of these windows in order, by default every trajectory whole and alone; read ahead by `workers`."""
        if batches is None:
            batches = [[window] for window in whole_windows(len(self), self.num_frames)]
        loader = DataLoader(
            self,
            batch_sampler=list(map(list, batches)),
            collate_fn=self.collate,
            num_workers=workers,
            multiprocessing_context="spawn" if workers else None,
        )
        return iter(loader)

    def _places(self, names: Sequence[str]) -> list[int]:
        known = self.file.description.field_names
        for name in names:
            if name not in known:
                raise FileError(self.file.path, f"holds no field {name!r}", part="fields", fix=suggestion(name, list(known)))
        return [known.index(name) for name in names]

    def _unit(self, points: np.ndarray) -> Tensor:
        return _tensor(self.box.to_unit_inside(points))


def _corners(cells: np.ndarray) -> Tensor:
    return torch.from_numpy(cells.astype(np.int64))


def _tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
