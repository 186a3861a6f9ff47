"""Random numbers of a batch: each window's from its own key, so that they depend on no batch mate and no process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from calm_pde.types import Float, Int, Tensor


class Draws:
    """What each window draws, call by call; the same keys and the same order of calls give the same numbers.

    A shape that begins with points draws the same for the real ones, however many padded ones follow, and so does every
    later call.
    """

    def __init__(self, keys: Sequence[Sequence[int]]) -> None:
        self._keys = [list(key) for key in keys]
        self._calls = 0

    def normal(self, *shape: int) -> Float[Tensor, "batch *axes"]:
        return torch.from_numpy(np.stack(self._drawn(lambda draw: draw.standard_normal(shape, dtype=np.float32))))

    def uniform(self, *shape: int) -> Float[Tensor, "batch *axes"]:
        return torch.from_numpy(np.stack(self._drawn(lambda draw: draw.random(shape, dtype=np.float32))))

    def integers(self, count: int) -> Int[Tensor, "batch"]:
        """Of 0 … count − 1."""
        return torch.tensor(self._drawn(lambda draw: int(draw.integers(count))))

    def _drawn(self, draw: Callable[[np.random.Generator], Any]) -> list[Any]:
        self._calls += 1
        return [draw(np.random.default_rng([*key, self._calls])) for key in self._keys]
