"""Large meshes: time and peak memory against the number of points, each in a process of its own.

`python -m benchmarks.scaling` runs all; `output SIDE BATCH` decodes one frame of the 2-D preset on a SIDE² grid,
`cloud DIM N` encodes and decodes a random cloud of N points, `train3d` takes one training step of the 3-D preset at 64³.
"""

from __future__ import annotations

import sys
import time

import matplotlib as mpl
import numpy as np
import torch

import calm_pde as cp
from benchmarks.measure import RESULTS, in_fresh_process, report, status
from calm_pde.models.calm.memory import predicted_peak

SIDES = (64, 128, 256, 512)
CLOUDS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def grid(side: int, dim: int) -> torch.Tensor:
    axis = torch.arange(side) / side
    return torch.cartesian_prod(*[axis] * dim).view(-1, dim)


@torch.no_grad()
def output(side: int, batch: int) -> tuple[float, int]:
    model = cp.CalmConfig.preset("navier_stokes_2d").build().eval()
    z, p = model.encode(torch.randn(batch, 4096, 1), grid(64, 2))
    zs, queries = model.advance(z, p, 1)[:, 1:], grid(side, 2)
    model.decode(zs, p, grid(16, 2))
    before, start = status("VmRSS"), time.perf_counter()
    model.decode(zs, p, queries)
    return time.perf_counter() - start, status("VmHWM") - before


@torch.no_grad()
def cloud(dim: int, num_points: int) -> tuple[float, int]:
    name = {2: "navier_stokes_2d", 3: "compressible_3d"}[dim]
    preset = cp.CalmConfig.preset(name)
    first = min(preset.encoder.receptive_field[0], 999 / num_points)  # k ≤ 1000
    model = preset.preset(name, encoder={"receptive_field": (first, *preset.encoder.receptive_field[1:])}).build().eval()
    points = torch.rand(num_points, dim)
    values = torch.randn(1, num_points, preset.in_channels)
    model(values[:, :1000], points[:1000], 1)
    before, start = status("VmRSS"), time.perf_counter()
    z, p = model.encode(values, points)
    model.decode(z[:, None], p, points)
    return time.perf_counter() - start, status("VmHWM") - before


def train3d() -> tuple[float, int]:
    model = cp.CalmConfig.preset("compressible_3d").build()
    points = grid(64, 3)
    values, target = torch.randn(1, len(points), 5), torch.randn(1, 21, len(points), 5)
    print(f"predicted {predicted_peak(model, len(points), 1, 20)}")
    before, start = status("VmRSS"), time.perf_counter()
    z, p = model.encode(values, points)
    u = model.decode(model.advance(z, p, 20), p, points)
    (u - target).square().mean().backward()
    return time.perf_counter() - start, status("VmHWM") - before


def fresh(*arguments: object) -> tuple[float, float]:
    seconds, peak = in_fresh_process("scaling", *map(str, arguments)).split()
    return float(seconds), int(peak) / 2**20


def main() -> None:
    lines = [
        "Output mesh (2-D preset, batch 32, one frame decoded):",
        "",
        "| grid | points | time | additional peak |",
        "|---|---|---|---|",
    ]
    outputs = {side: fresh("output", side, 32) for side in SIDES}
    for side, (seconds, peak) in outputs.items():
        lines.append(f"| {side}² | {side**2:,} | {seconds:.2f} s | {peak:.0f} MiB |")
    low, high = outputs[SIDES[0]][0] / SIDES[0] ** 2, outputs[SIDES[-1]][0] / SIDES[-1] ** 2
    lines += ["", f"Time per point at {SIDES[-1]}² is {high / low:.2f} of that at {SIDES[0]}²."]
    seconds, peak = fresh("output", 2048, 1)
    lines += [f"2048² (4,194,304 points), batch 1: {seconds:.1f} s, additional peak {peak:.0f} MiB.", ""]

    lines += ["Random cloud in and out (batch 1, one frame, k ≤ 1000):", ""]
    lines += ["| points | 2-D time | 2-D peak | 3-D time | 3-D peak |", "|---|---|---|---|---|"]
    results = {dim: [fresh("cloud", dim, count) for count in CLOUDS] for dim in (2, 3)}
    for row, count in enumerate(CLOUDS):
        cells = [f"{results[dim][row][0]:.2f} s | {results[dim][row][1]:.0f} MiB" for dim in (2, 3)]
        lines.append(f"| {count:,} | {' | '.join(cells)} |")
    for dim in (2, 3):
        times = [seconds for seconds, _ in results[dim]]
        exponent = np.polyfit(np.log(CLOUDS[-4:]), np.log(times[-4:]), 1)[0]
        lines.append(("" if dim == 3 else "\n") + f"Time grows as N^{exponent:.2f} in {dim}-D (fit over the last four).")
    seconds, peak = fresh("train3d")
    lines += [
        "",
        f"Training step of the 3-D preset at 64³ (262,144 points), 21 frames, batch 1: {seconds:.1f} s, peak {peak:.0f} MiB.",
    ]
    report("scaling", lines)
    plot(results)


def plot(results: dict[int, list[tuple[float, float]]]) -> None:
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for part, (axis, label) in enumerate(zip(axes, ("time [s]", "additional peak memory [MiB]"), strict=True)):
        for dim, marker in ((2, "o-"), (3, "s--")):
            axis.loglog(CLOUDS, [result[part] for result in results[dim]], marker, label=f"{dim}-D preset")
        axis.set_xlabel("points in and out")
        axis.set_ylabel(label)
        axis.grid(visible=True, which="major", alpha=0.4)
        axis.legend()
    figure.suptitle("Encode and decode one frame of a random cloud, two cores")
    figure.savefig(RESULTS / "scaling.png", dpi=110)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        torch.manual_seed(0)
        kind, *numbers = sys.argv[1:]
        print(*{"output": output, "cloud": cloud, "train3d": train3d}[kind](*map(int, numbers)))
