"""Every example runs as a user runs it; the sample file is small and good."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from calm_pde.data.check import check
from calm_pde.data.storage import DataFile

EXAMPLES = Path(__file__).parents[2] / "examples"
ARGUMENTS = {"heat_source.py": ["--small"]}
"""Of examples that take longer as a user runs them."""


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_example_runs_and_is_short(script: str, tmp_path: Path) -> None:
    assert len((EXAMPLES / script).read_text().splitlines()) <= 60
    command = [sys.executable, EXAMPLES / script, *ARGUMENTS.get(script, [])]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for file in tmp_path.glob("*.h5"):
        assert {finding.level for finding in check(DataFile(file))} == {"good"}


def test_sample_file_is_small_and_good() -> None:
    sample = EXAMPLES / "sample.h5"
    assert sample.stat().st_size <= 2e6
    file = DataFile(sample)
    assert {finding.level for finding in check(file)} == {"good"}
    assert file.header.provenance["generate"]["kind"] == "navier_stokes"
