"""Peaks of memory against what is known to be allocated."""

from __future__ import annotations

import subprocess
import sys

import pytest

MEBIBYTE = 2**20
CODE = """
import sys, torch
from calm_pde.bench.measured.memory import peak_of

def block():
    return torch.ones(int(sys.argv[1]) * 2**20 // 4)

block()
print(peak_of(lambda: [block() is None for _ in range(3)]), peak_of(lambda: [block(), block()]))
"""


@pytest.mark.parametrize("mebibytes", [64, 192])
def test_a_peak_is_what_was_alive_at_once(mebibytes):
    """Tensors one after the other count once, together they count together; what was freed before does not hide them.

    In a process of its own, since others may have told the allocator to keep what is freed.
    """
    told = subprocess.run([sys.executable, "-c", CODE, str(mebibytes)], capture_output=True, text=True, check=True)
    alone, together = map(int, told.stdout.split())
    assert alone == pytest.approx(mebibytes * MEBIBYTE, rel=0.15)
    assert together == pytest.approx(2 * mebibytes * MEBIBYTE, rel=0.15)
