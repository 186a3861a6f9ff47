"""What a model can show of its inside: query points, kernels, latent tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calm_pde.types import Tensor


class OwnQueries(NamedTuple):
    """The query points of one layer, (query, dim) in unit coordinates.

    Args:
        weights: the layer's name among the model's weights.
    """

    name: str
    weights: str
    positions: Tensor
    learned: bool


class LatentShape(NamedTuple):
    """What one time step is in latent space (paper, size of latent space): tokens × channels."""

    tokens: int
    channels: int


class QueryKernel(NamedTuple):
    """The kernel at one query, physical coordinates."""

    at: np.ndarray
    """(dim,), periodic axes inside the box."""
    points: np.ndarray
    """(neighbor, dim), each the periodic image next to the query."""
    weights: np.ndarray
    """(neighbor, filter), signed."""


class LayerKernels(NamedTuple):
    """The kernel of one layer at a few queries."""

    name: str
    num_filters: int
    queries: tuple[QueryKernel, ...]
