"""Cells that a user gives beside the points of a mesh: wanted exactly where a surrogate was trained with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from calm_pde.errors import InputError
from calm_pde.records.arrays import finite_numbers


def given_cells(cells: Any, wanted: bool, num_points: int) -> np.ndarray | None:
    """(cell, corner) or (batch, cell, corner), int64; None where the surrogate reads none."""
    if not wanted:
        if cells is not None:
            fix = "Leave cells out: its answers come from the points alone."
            raise InputError("cells", expected="none, since the surrogate was trained without", got="some", fix=fix)
        return None
    expected = "(cell, corner), the points at the corners of each cell, since the surrogate was trained with the edges of cells"
    if cells is None:
        fix = "Give cells=…, as description.cells of a data file has them; scipy.spatial.Delaunay(points).simplices makes some."
        raise InputError("cells", expected=expected, got="none", fix=fix)
    values = finite_numbers("cells", cells)
    if values.ndim not in (2, 3) or not values.size or (values != np.round(values)).any():
        raise InputError("cells", expected=expected, got=f"shape {values.shape}", fix="Give whole numbers, a row per cell.")
    if values.min() < 0 or values.max() >= num_points:
        got = f"{int(values.min())} … {int(values.max())}"
        raise InputError("cells", expected=f"indices 0 … {num_points - 1} of points", got=got, fix="Count points from 0.")
    return values.astype(np.int64)
