"""The one thing that models see: a batch of windows of trajectories, in unit coordinates and physical values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from calm_pde.notebook import brief
from calm_pde.types import Bool, Float, Int, Tensor


@dataclass(frozen=True, repr=False)
class Batch:
    """Windows of the same length from several trajectories.

    Args:
        times: in frames, from each window's own start.
        points: in unit coordinates; with a batch axis where each trajectory has its own mesh.
        mask: True where a point is real, where meshes differ in size; None where all points are.
        node_type: the data file's code of each point, (point,) or (batch, point).
        cells: the points at the corners of each cell, (cell, corner) or (batch, cell, corner), where known; rows with fewer
            cells end with some of one point alone.
        signal_times: of the knots of the signals, in frames from each window's own start, so that some may be negative; rows
            with fewer knots than others end with repetitions of their last value, a frame apart.
        samples: which trajectory of the file each entry is.
        starts: the first frame of each window.
    """

    fields: Float[Tensor, "batch time point channel"]
    times: Float[Tensor, "time"]
    points: Float[Tensor, "*cloud point dim"]
    samples: Int[Tensor, "batch"]
    starts: Int[Tensor, "batch"]
    mask: Bool[Tensor, "batch point"] | None = None
    node_type: Int[Tensor, "..."] | None = None
    features: Float[Tensor, "batch point feature"] | None = None
    parameters: Float[Tensor, "batch parameter"] | None = None
    signals: Float[Tensor, "batch knot signal"] | None = None
    signal_times: Float[Tensor, "batch knot"] | None = None
    cells: Int[Tensor, "*batch cell corner"] | None = None

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        return brief(self)

    def to(self, device: torch.device | str) -> Batch:
        moved = {name: value.to(device) for name, value in vars(self).items() if value is not None}
        return dataclasses.replace(self, **moved)

    def parts(self, count: int) -> Iterator[Batch]:
        """In `count` parts along its windows; fewer where it has fewer windows."""
        own_meshes = self.points.ndim == 3
        shared = {"times"} if own_meshes else {"times", "points", "node_type", "cells"}
        size = -(-len(self) // count)
        for start in range(0, len(self), size):
            along = {name: value for name, value in vars(self).items() if name not in shared and value is not None}
            yield dataclasses.replace(self, **{name: value[start : start + size] for name, value in along.items()})


def padded_signals(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Signals (batch, most knots, signal) and their times, of rows (knot, signal) with times (knot,) in frames.

    Rows with fewer knots go on level: their last value is repeated, a frame apart.
    """
    most = max(len(times) for _, times in rows)
    values, places = [], []
    for level, times in rows:
        more = torch.arange(1, most - len(times) + 1, dtype=times.dtype)
        values.append(torch.cat([level, level[-1:].expand(len(more), -1)]))
        places.append(torch.cat([times, times[-1] + more]))
    return torch.stack(values), torch.stack(places)


def padded(rows: list[Tensor]) -> Tensor:
    """(batch, *, most points, *): tensors (point, …) or (time, point, …) that differ in points, filled up with zeros.

    Points stand on the last axis but one, or on the only one.
    """
    axis = max(0, rows[0].ndim - 2)
    most = max(row.shape[axis] for row in rows)
    shape = list(rows[0].shape)
    shape[axis] = most
    out = rows[0].new_zeros(len(rows), *shape)
    for place, row in zip(out, rows, strict=True):
        place.narrow(axis, 0, row.shape[axis]).copy_(row)
    return out
