"""Recognizes a full tensor grid from its points alone, in any order, and lays fields out on it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from calm_pde.engine.receptive_fields import ContentCache
from calm_pde.errors import InputError
from calm_pde.types import Float, Int, Tensor

_INSTEAD = "Use a model for scattered points (geo_fno, ffno with form: points, calm), or data on a full grid."

_GRIDS = ContentCache(64 * 2**20)


class RecognizedGrid(NamedTuple):
    """Every combination of one coordinate per axis; cells are counted with the last axis fastest.

    Args:
        order: the point of each cell.
        cell: the cell of each point. Both are None where the points already stand in the order of the cells.
    """

    shape: tuple[int, ...]
    order: Int[Tensor, "point"] | None
    cell: Int[Tensor, "point"] | None

    def by_cell(self, values: Float[Tensor, "*rows point channel"]) -> Float[Tensor, "*rows cell channel"]:
        """What is given per point, in the order of the cells."""
        return values if self.order is None else values.index_select(-2, self.order)

    def by_point(self, values: Float[Tensor, "*rows cell channel"]) -> Float[Tensor, "*rows point channel"]:
        """What is given per cell, in the order of the points."""
        return values if self.cell is None else values.index_select(-2, self.cell)


class GridGeometry(NamedTuple):
    """What a grid model's step needs of the mesh: its layout, and what the coordinates bring to the lift, cell by cell."""

    grid: RecognizedGrid
    beside: Float[Tensor, "1 channel cell"]


def recognized_grid(
    points: Float[Tensor, "*sample point dim"],
    mask: Tensor | None,
    queries: Tensor | None,
    smallest: tuple[int, ...],
    kind: str,
) -> tuple[RecognizedGrid, Float[Tensor, "point dim"]]:
    """The grid that all samples share, and its points; anything else is refused in the name of the `kind` of model.

    Spacings may be uneven; transforms go by cells. `smallest` is the smallest number of cells along each axis.
    """
    if queries is not None:
        raise InputError(
            "queries",
            expected=f"none, since {kind} answers on its grid only",
            got=f"{queries.shape[-2]} of them",
            fix="Leave queries out and interpolate, or use a model that answers anywhere (calm, geo_fno).",
        )
    if mask is not None and not bool(mask.all()):
        hidden = int((~mask).sum())
        raise InputError("mask", expected=f"none, since {kind} needs a full grid", got=f"{hidden} masked points", fix=_INSTEAD)
    if points.ndim == 3:
        if not torch.equal(points, points[:1].expand_as(points)):
            raise InputError(
                "points",
                expected=f"one mesh for all samples of a batch, since {kind} lives on a grid",
                got=f"{len(points)} that differ",
                fix=_INSTEAD,
            )
        points = points[0]

    def compute() -> tuple[int, RecognizedGrid]:
        grid = _recognized(points.detach(), kind)
        return 16 * len(points), grid

    grid = _GRIDS.get(kind, (points.detach(),), compute)
    if any(size < least for size, least in zip(grid.shape, smallest, strict=True)):
        raise InputError(
            "points",
            expected=f"a grid of at least {_times(smallest)} cells, as the modes of this {kind} need",
            got=_times(grid.shape),
            fix="Configure fewer modes, or use a finer grid.",
        )
    return grid, points


def _recognized(points: Float[Tensor, "point dim"], kind: str) -> RecognizedGrid:
    levels = [_levels(coordinates) for coordinates in points.unbind(dim=-1)]
    shape = tuple(int(level.max()) + 1 for level in levels)
    if math.prod(shape) == len(points):
        cell = levels[0]
        for level, size in zip(levels[1:], shape[1:], strict=True):
            cell = cell * size + level
        order = cell.argsort()
        cells = torch.arange(len(points), device=points.device)
        if torch.equal(cell, cells):
            return RecognizedGrid(shape, None, None)
        if torch.equal(cell[order], cells):
            return RecognizedGrid(shape, order, cell)
    raise InputError(
        "points",
        expected=f"a full grid, every combination of one coordinate per axis, since {kind} lives on one",
        got=f"{len(points)} points with {_times(shape)} different coordinates",
        fix=_INSTEAD,
    )


def _levels(coordinates: Float[Tensor, "point"]) -> Int[Tensor, "point"]:
    """The rank of each coordinate among the different ones; those that differ by rounding only are the same.

    An axis has at most as many levels as there are points, so a thousandth of extent/points never joins two real ones.
    """
    ascending, place = coordinates.sort()
    rounding = 8 * torch.finfo(coordinates.dtype).eps * float(ascending.abs().max().clamp(min=1))
    tolerance = max(rounding, 1e-3 * float(ascending[-1] - ascending[0]) / len(coordinates))
    rank = torch.nn.functional.pad((ascending.diff() > tolerance).cumsum(0), (1, 0))
    return torch.empty_like(rank).scatter_(0, place, rank)


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
