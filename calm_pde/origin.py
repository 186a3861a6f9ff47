"""Where a result comes from: versions, commit and machine, to stand beside every number."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

_PACKAGE = Path(__file__).parent


def origin() -> dict[str, Any]:
    """Versions, the commit where the package stands in its repository, and the machine."""
    known = {"calm-pde", "torch", "numpy", "scipy"}
    versions = {name: importlib.metadata.version(name) for name in sorted(known)} | {"python": platform.python_version()}
    return {"versions": versions, "commit": commit(), "machine": machine()}


def commit() -> str | None:
    """Of the package's own repository, with a word where files differ from it; None where it is installed elsewhere."""
    if not (_PACKAGE.parent / ".git").exists():
        return None
    found = _git("rev-parse", "--short", "HEAD")
    return f"{found} with uncommitted changes" if found and _git("status", "--porcelain", str(_PACKAGE)) else found or None


def machine() -> str:
    """What computes: the GPU, or the processor with cores and threads."""
    if torch.cuda.is_available():
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name()}"
    threads = torch.get_num_threads()
    return f"{processor()}, {os.cpu_count()} cores, {threads} thread{'s' if threads > 1 else ''}"


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def _git(*arguments: str) -> str:
    try:
        run = subprocess.run(
            ["git", "-C", str(_PACKAGE.parent), *arguments], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):  # no git here, or a disk that doesn't answer
        return ""
    return run.stdout.strip() if run.returncode == 0 else ""
