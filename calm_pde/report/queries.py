"""Where a model looks: the query points of its layers, physical."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calm_pde.geometry import Box, inside
from calm_pde.models import Model
from calm_pde.types import Float, Tensor


class LayerQueries(NamedTuple):
    """The query points of one layer, physical."""

    name: str
    positions: np.ndarray
    """(query, dim), periodic axes inside the box."""
    learned: bool


def query_points(model: Model, box: Box) -> list[LayerQueries]:
    """Of every layer that has queries of its own."""
    return [LayerQueries(layer.name, physical(layer.positions, box), layer.learned) for layer in model.query_points()]


def physical(positions: Float[Tensor, "*axes dim"], box: Box) -> np.ndarray:
    """Physical coordinates of unit ones, those on periodic axes inside the box, wherever training took them."""
    positions = positions.detach().double().cpu()
    return box.to_physical(inside(positions, tuple(box.periodic))).numpy()  # pyright: ignore[reportArgumentType]
