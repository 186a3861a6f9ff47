"""How the benchmarks measure: both sides interleaved in one process, peaks of memory in fresh ones, results with provenance."""

from __future__ import annotations

import datetime
import platform
import statistics
import subprocess
import sys
from pathlib import Path

import torch

from calm_pde.bench.measured.memory import keep_freed_memory, status
from calm_pde.bench.measured.timing import interleaved
from calm_pde.origin import commit, machine

__all__ = [
    "copy_bandwidth",
    "in_fresh_process",
    "interleaved",
    "keep_freed_memory",
    "matmul_peak",
    "report",
    "spread",
    "status",
]

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"


def spread(times: list[float]) -> str:
    """The minimum with median and maximum behind it, in milliseconds."""
    low, middle, high = min(times), statistics.median(times), max(times)
    return f"{1000 * low:.0f} ms (median {1000 * middle:.0f}, max {1000 * high:.0f})"


def in_fresh_process(script: str, *arguments: str) -> str:
    """The last line that a script of this package prints in a process of its own."""
    command = [sys.executable, "-m", f"benchmarks.{script}", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stderr[-2000:]}")
    return run.stdout.strip().splitlines()[-1]


def matmul_peak(size: int = 2048, repeats: int = 8) -> float:
    """Floating-point operations per second of a large float32 product."""
    a, out = torch.randn(size, size), torch.empty(size, size)
    return 2 * size**3 / min(interleaved({"": lambda: torch.mm(a, a, out=out)}, repeats)[""])


def copy_bandwidth(megabytes: int = 256, repeats: int = 8) -> float:
    """Bytes read and written per second by a copy beyond all caches."""
    source = torch.randn(megabytes * 2**18)
    target = torch.empty_like(source)
    return 2 * source.numel() * 4 / min(interleaved({"": lambda: target.copy_(source)}, repeats)[""])


def report(name: str, lines: list[str]) -> None:
    """Print the lines and keep them in a dated file with commit, hardware and versions."""
    now = datetime.datetime.now(datetime.UTC)
    head = [
        f"# {name}, {now:%Y-%m-%d %H:%M} UTC",
        "",
        f"- commit {commit()}, seed 0",
        f"- {machine()}, Python {platform.python_version()}, torch {torch.__version__}",
        "",
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{now:%Y-%m-%d}_{name}.md").write_text("\n".join(head + lines) + "\n")
    print("\n".join(lines))
