"""Small geometries of every kind, with values that tell every point and step apart."""

from __future__ import annotations

import numpy as np
from scipy.spatial import Delaunay

from calm_pde.export.cells import Geometry, geometry_of
from calm_pde.geometry import cell_centers, tensor_grid

TIMES = np.array([0.0, 0.1, 0.35, 2.0])


def cloud(dim: int, count: int = 30) -> np.ndarray:
    return np.random.default_rng(dim).uniform(-1, 2, size=(count, dim))


def arguments() -> dict[str, dict]:
    """What `geometry_of` is given."""
    uneven = tensor_grid(np.array([0.0, 1.0, 3.0]), np.array([0.0, 0.5, 0.6, 2.0]))
    return {
        "image 2-D": {"points": tensor_grid(2 * cell_centers(4), cell_centers(3)), "grid_shape": (4, 3)},
        "image 3-D": {"points": tensor_grid(cell_centers(4), 1 + np.arange(3.0), cell_centers(2)), "grid_shape": (4, 3, 2)},
        "uneven grid": {"points": uneven, "grid_shape": (3, 4)},
        "bent grid": {"points": tensor_grid(*[np.arange(3.0) ** 2] * 3), "grid_shape": (3, 3, 3)},
        "triangles": {"points": cloud(2), "cells": Delaunay(cloud(2)).simplices},
        "tetrahedra": {"points": cloud(3), "cells": Delaunay(cloud(3)).simplices},
        "points 2-D": {"points": cloud(2)},
        "points 3-D": {"points": cloud(3)},
        "curve": {"points": np.array([[0.0], [0.5], [2.0]]), "grid_shape": (3,)},
        "points 1-D": {"points": cloud(1)},
    }


KINDS = tuple(arguments())


def geometry(kind: str) -> Geometry:
    return geometry_of(**arguments()[kind])


def values(kind: str) -> dict[str, np.ndarray]:
    """Two moving arrays and one that stays, over the points in our order."""
    count = len(arguments()[kind]["points"])
    moving = np.random.default_rng(0).normal(size=(2, len(TIMES), count)).astype(np.float32)
    return {"u": moving[0], "density ρ": moving[1], "node_type": np.arange(count, dtype=np.int32)}


def in_file_order(kind: str, row: np.ndarray) -> np.ndarray:
    """A row over the points as an image holds it, with x fastest; as it is for other geometries."""
    if not kind.startswith("image"):
        return row
    shape = arguments()[kind]["grid_shape"]
    return np.array([row[np.ravel_multi_index(place[::-1], shape)] for place in np.ndindex(*shape[::-1])])
