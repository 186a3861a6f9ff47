"""Random numbers of a batch: each window's from its own key, so that they depend on no batch mate and no process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from calm_pde.types import Float, Int, Tensor


class Draws:
    """What each window draws, one after the other; the same keys give the same numbers.

    A shape that begins with points draws the same for the real ones, however many padded ones follow.
    """

    def __init__(self, keys: Sequence[Sequence[int]]) -> None:
        self._generators = [np.random.default_rng(list(key)) for key in keys]

    def normal(self, *shape: int) -> Float[Tensor, "batch *axes"]:
        return self._stacked([draw.standard_normal(shape, dtype=np.float32) for draw in self._generators])

    def uniform(self, *shape: int) -> Float[Tensor, "batch *axes"]:
        return self._stacked([draw.random(shape, dtype=np.float32) for draw in self._generators])

    def integers(self, count: int) -> Int[Tensor, "batch"]:
        """Of 0 … count − 1."""
        return torch.tensor([int(draw.integers(count)) for draw in self._generators])

    def _stacked(self, rows: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(rows))
