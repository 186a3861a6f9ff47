"""Work in a process of its own, whose memory is then its own too."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from calm_pde.errors import CalmError

_PACKAGE = Path(__file__).parents[3]
_MOST_WORDS = 300


def answer_of(module: str, *arguments: str) -> bytes:
    """What `python -m MODULE ARGUMENTS … FILE` writes to the file; a process that fails raises with its last words."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answer.json"
        ended = subprocess.run(
            [sys.executable, "-m", module, *arguments, str(out)],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": package_path()},
        )
        if ended.returncode or not out.exists():
            raise CalmError(f"the measurement ended early: {last_words(ended.returncode, ended.stderr)}")
        return out.read_bytes()


def package_path() -> str:
    """PYTHONPATH under which a process finds this very package."""
    return os.pathsep.join(filter(None, [str(_PACKAGE), os.environ.get("PYTHONPATH")]))


def last_words(code: int, text: str) -> str:
    """The last line, or the signal that ended it."""
    if code < 0:
        return f"signal {-code}{', probably out of memory' if code == -9 else ''}"
    return (text.strip().splitlines() or ["it said nothing"])[-1][-_MOST_WORDS:]
