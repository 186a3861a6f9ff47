"""`make test-slow`: tests marked slow and properties with many examples; a dated record names the commit and the machine."""

from __future__ import annotations

import datetime
import platform
import subprocess
import sys
from pathlib import Path

import torch

from calm_pde.origin import commit, machine

ROOT = Path(__file__).parent.parent
OPTIONS = ["-m", "slow or hypothesis", "--hypothesis-profile=thorough", "--durations=0", "-o", "addopts=--strict-markers -ra"]
RESULTS = ROOT / "benchmarks" / "results"


def main() -> int:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *OPTIONS, *sys.argv[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(run.stdout, run.stderr, sep="\n")
    now = datetime.datetime.now(datetime.UTC)
    RESULTS.mkdir(parents=True, exist_ok=True)
    record = RESULTS / f"{now:%Y-%m-%d}_test_slow.md"
    summary = [line for line in run.stdout.splitlines() if "passed" in line or "failed" in line or " call " in line]
    record.write_text(
        f"# make test-slow, {now:%Y-%m-%d %H:%M} UTC\n\n"
        f"- commit {commit()}\n"
        f"- {machine()}, Python {platform.python_version()}, torch {torch.__version__}\n"
        f"- exit code {run.returncode}\n\n```\n" + "\n".join(summary) + "\n```\n"
    )
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
