"""A file larger than the memory allowed converts, and trains from disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peaks of memory are read from /proc")


def _peak(*arguments: object) -> int:
    command = [sys.executable, "-m", "tests.data.big_file", *map(str, arguments)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return int(run.stdout.splitlines()[-1])


def _check(tmp_path: Path, megabytes: int) -> tuple[int, int]:
    """Peaks in MB of converting and of one epoch of windows."""
    _peak("make", tmp_path / "arrays", megabytes)
    return _peak("convert", tmp_path / "arrays", tmp_path / "a.h5"), _peak("epoch", tmp_path / "a.h5")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    (tmp_path / "large").mkdir()
    for small, large in zip(_check(tmp_path / "small", 20), _check(tmp_path / "large", 200), strict=True):
        assert large - small < 40


@pytest.mark.slow
def test_ten_gigabytes_in_two(tmp_path: Path) -> None:
    converting, reading = _check(tmp_path, 10_000)
    print(f"10 GB of random numbers: converted in {converting} MB, an epoch of windows read in {reading} MB")
    assert converting <= 2000
    assert reading <= 2000
