"""Rollout of one trajectory of the 2-D Navier-Stokes preset: straightforward, ours, and ours baked.

`python -m benchmarks.rollout` measures with an allocator that keeps memory, and once with its defaults (`defaults`).
"""

from __future__ import annotations

import sys

import torch

from benchmarks import straightforward
from benchmarks.measure import in_fresh_process, interleaved, keep_freed_memory, report, spread
from benchmarks.training_step import FRAMES, setting

REPEATS = 100


@torch.no_grad()
def main(allocator: str) -> None:
    model, grid, values, _ = setting(1)
    baked = model.bake(grid)

    def plain() -> torch.Tensor:
        z, p = straightforward.encode(model, values, grid)
        return straightforward.decode(model, straightforward.advance(model, z, p, FRAMES - 1)[:, 1:], p, grid)

    programs = {
        "straightforward": plain,
        "ours": lambda: model(values, grid, FRAMES - 1),
        "ours, baked": lambda: baked(values, FRAMES - 1),
    }
    wanted = programs["straightforward"]()
    lines = [
        f"Rollout of one trajectory, 64×64, {FRAMES - 1} steps, float32; minimum of {REPEATS} interleaved; {allocator}.",
        "",
    ]
    times = interleaved(programs, REPEATS)
    ratios = {name: f"ratio **{min(times['straightforward']) / min(taken):.1f}**" for name, taken in times.items()}
    if sys.argv[1:]:
        print(", ".join(f"{name} {1000 * min(taken):.1f} ms ({ratios[name]})" for name, taken in times.items()))
        return
    for name, program in programs.items():
        error = float((program() - wanted).abs().max() / wanted.abs().max())
        lines.append(f"- {name}: {spread(times[name])}, {ratios[name]}, differs by {error:.1e}")
    lines.append(f"- with the allocator as it is, in a process of its own: {in_fresh_process('rollout', 'defaults')}")
    report("rollout", lines)


if __name__ == "__main__":
    main("the allocator as it is" if sys.argv[1:] else keep_freed_memory())
