"""The step and the rollout of this checkout against another's, in turns: `python -m benchmarks.checkouts ../other`.

Each checkout computes in a process of its own that waits for its turn; the two take turns, and who begins changes from pair to
pair. What is told is the median of the ratios of pairs, with the interval in which 95 % of resampled medians lie.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from benchmarks.measure import report

PAIRS = 40
ROOT = Path(__file__).parent.parent

WORKER = """
import sys, time, torch
import calm_pde as cp

model = cp.CalmConfig.preset("navier_stokes_2d").build(seed=0)
axis = torch.arange(64) / 64
points = torch.cartesian_prod(axis, axis)
values = torch.randn(8, 4096, 1, generator=torch.Generator().manual_seed(0))
baked = model.bake(points)

def step():
    model.zero_grad()
    z, p = model.encode(values, points)
    model.decode(model.advance(z, p, 19), p, points).square().mean().backward()

@torch.no_grad()
def rollout():
    model(values[:1], points, 19)

def baked_rollout():
    baked(values[:1], 19)

for line in sys.stdin:
    work = {"step": step, "rollout": rollout, "baked rollout": baked_rollout}[line.strip()]
    start = time.perf_counter()
    work()
    print(time.perf_counter() - start, flush=True)
"""


class Checkout:
    """A process that computes with the package of one folder."""

    def __init__(self, folder: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, what: str) -> float:
        if self.process.stdin is None or self.process.stdout is None:
            raise RuntimeError("no pipe to the process")
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def main() -> None:
    other, ours = Checkout(Path(sys.argv[1]).resolve()), Checkout(ROOT)
    draw = np.random.default_rng(0)
    lines = [f"This checkout over {commit_of(Path(sys.argv[1]))}, 2-D Navier-Stokes preset, {PAIRS} pairs in turns.", ""]
    for what in ("step", "rollout", "baked rollout"):
        for _ in range(3):
            other.seconds(what), ours.seconds(what)
        ratios, times = [], []
        for pair in range(PAIRS):
            turns = [other, ours] if pair % 2 else [ours, other]
            taken = {checkout: checkout.seconds(what) for checkout in turns}
            ratios.append(taken[ours] / taken[other])
            times.append((taken[ours], taken[other]))
        medians = [np.median(draw.choice(ratios, PAIRS)) for _ in range(2000)]
        low, high = np.quantile(medians, [0.025, 0.975])
        mine, theirs = np.median(times, axis=0)
        lines.append(
            f"- {what}: ratio **{np.median(ratios):.3f}** [{low:.3f}, {high:.3f}]; "
            f"medians {1e3 * mine:.0f} and {1e3 * theirs:.0f} ms"
        )
    report("checkouts", lines)


def commit_of(folder: Path) -> str:
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
