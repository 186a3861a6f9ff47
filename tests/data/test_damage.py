"""Damaged data files: no crash, nothing silently wrong, and messages that name the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calm_pde.data.writing import write
from tests.data.sets import own_source, shared_source

ROOT = Path(__file__).parents[2]


def _outcomes(source: Path, first: int, last: int) -> list[str]:
    command = [sys.executable, "-m", "tests.data.mutants", str(source), str(source.parent), str(first), str(last)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"after {run.stdout.splitlines()[-1:]}: exit {run.returncode}, {run.stderr[-2000:]}"
    return run.stdout.splitlines()


def _check(tmp_path: Path, count: int) -> None:
    lines = []
    for name, make in (("shared", shared_source), ("own", own_source)):
        path = tmp_path / f"{name}.h5"
        write(make(), path).close()
        lines += _outcomes(path, 0, count // 2)
    assert len(lines) == count
    assert not [line for line in lines if line.split(maxsplit=2)[2].startswith("silent")]
    errors = [line for line in lines if line.split(maxsplit=2)[2].startswith("error")]
    assert len(errors) > 0.6 * count
    assert all("mutant_0.h5" in line for line in errors)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    _check(tmp_path, 200)


@pytest.mark.slow
def test_a_thousand_damaged_files_are_refused(tmp_path: Path) -> None:
    _check(tmp_path, 1000)
