"""Peaks of memory against what is known to be allocated."""

from __future__ import annotations

import pytest
import torch

from calm_pde.bench.memory import peak_of

MEBIBYTE = 2**20


@pytest.mark.parametrize("mebibytes", [64, 192])
def test_a_peak_is_what_was_alive_at_once(mebibytes):
    """Tensors one after the other count once, together they count together; what was freed before does not hide them."""

    def block() -> torch.Tensor:
        return torch.ones(mebibytes * MEBIBYTE // 4)

    block()
    alone = peak_of(lambda: [block() is None for _ in range(3)])
    together = peak_of(lambda: [block(), block()])
    assert alone == pytest.approx(mebibytes * MEBIBYTE, rel=0.15)
    assert together == pytest.approx(2 * mebibytes * MEBIBYTE, rel=0.15)
