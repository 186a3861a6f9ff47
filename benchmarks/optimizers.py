"""What Muon costs beside AdamW: `python -m benchmarks.optimizers`, 2-D Navier-Stokes preset at 64 × 64, 20 frames."""

from __future__ import annotations

import statistics
import time

import torch

import calm_pde as cp
from benchmarks.measure import report
from calm_pde.train.optimizers import optimizers_of

ROUNDS = {8: 12, 32: 4}


def main() -> None:
    model = cp.CalmConfig.preset("navier_stokes_2d").build(seed=0)
    axis = torch.arange(64) / 64
    points = torch.cartesian_prod(axis, axis)
    chosen = {name: optimizers_of(model, name, 1e-5, 1e-4) for name in ("adamw", "muon")}
    lines = ["Medians over rounds in turns; the share is the optimizer's step in forward, backward and step.", ""]
    for batch, rounds in ROUNDS.items():
        values = torch.randn(batch, 4096, 1, generator=torch.Generator().manual_seed(0))
        taken: dict[str, list[float]] = {"gradients": [], "adamw": [], "muon": []}
        for _ in range(rounds + 1):
            start = time.perf_counter()
            model.zero_grad()
            model.rollout(values, points, list(range(1, 20))).square().mean().backward()
            taken["gradients"].append(time.perf_counter() - start)
            for name, optimizer in chosen.items():
                start = time.perf_counter()
                optimizer.step()
                taken[name].append(time.perf_counter() - start)
        middle = {name: statistics.median(times[1:]) for name, times in taken.items()}
        for name in chosen:
            share = middle[name] / (middle["gradients"] + middle[name])
            lines.append(
                f"- batch {batch}, {name}: **{share:.1%}** of a step ({1e3 * middle[name]:.1f} ms "
                f"beside {1e3 * middle['gradients']:.0f} ms of gradients)"
            )
    report("optimizers", lines)


if __name__ == "__main__":
    main()
