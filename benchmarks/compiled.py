"""`torch.compile` against the engine: the rollout of one trajectory and a training step of the 2-D Navier-Stokes preset.

Both have the neighbors given, as a compiled model needs them; the time to compile is told apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

import calm_pde as cp
from benchmarks.measure import interleaved, keep_freed_memory, report, spread
from benchmarks.training_step import FRAMES, setting


def stages(model: cp.CalmPDE, compiled: bool) -> tuple[Callable, Callable, Callable]:
    found = (model.encode, model.advance, model.decode)
    return tuple(torch.compile(stage, dynamic=False, fullgraph=True) for stage in found) if compiled else found


def rollout(compiled: bool) -> Callable[[], torch.Tensor]:
    model, grid, values, _ = setting(1)
    neighbors = model.neighbors(grid, grid)
    encode, advance, decode = stages(model, compiled)

    @torch.no_grad()
    def run() -> torch.Tensor:
        z, p = encode(values, grid, neighbors=neighbors)
        return decode(advance(z, p, FRAMES - 1)[:, 1:], p, grid, neighbors)

    return run


def training(compiled: bool, batch: int = 8) -> Callable[[], torch.Tensor]:
    model, grid, values, target = setting(batch)
    neighbors = model.neighbors(grid, grid)
    encode, advance, decode = stages(model, compiled)

    def run() -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        z, p = encode(values, grid, neighbors=neighbors)
        loss = (decode(advance(z, p, FRAMES - 1), p, grid, neighbors) - target).square().mean()
        loss.backward()
        return loss.detach()

    return run


def main() -> None:
    lines = [f"2-D Navier-Stokes preset, 64×64, {FRAMES} frames, float32, neighbors given; {keep_freed_memory()}.", ""]
    for name, program, repeats in (("rollout of one trajectory", rollout, 20), ("training step, batch 8", training, 10)):
        programs = {"ours": program(False), "compiled": program(True)}
        wanted, start = programs["ours"](), time.perf_counter()
        error = float((programs["compiled"]() - wanted).abs().max() / wanted.abs().max())
        first = time.perf_counter() - start
        times = interleaved(programs, repeats)
        ratio = min(times["compiled"]) / min(times["ours"])
        lines.append(
            f"- {name}: ours {spread(times['ours'])}, compiled {spread(times['compiled'])}, **{ratio:.1f}** times ours; "
            f"compiling took {first:.0f} s; differs by {error:.1e}"
        )
    report("compiled", lines)


if __name__ == "__main__":
    main()
