"""Point clouds that the tests share: random ones, and grids full of ties."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor


def random_cloud(num_points: int, dim: int, seed: int = 0) -> Tensor:
    return torch.rand(num_points, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def grid(side: int, dim: int) -> Tensor:
    """The periodic grid i/side, without the endpoint; exact in floating point where side is a power of two."""
    axis = [i / side for i in range(side)]
    return torch.tensor(list(itertools.product(axis, repeat=dim)), dtype=torch.float64)


def relative_error(a: Tensor, b: Tensor) -> float:
    """max|a − b| / max|b|."""
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).abs().max() / b.abs().max())
