"""The paper's 2-D Navier-Stokes preset at 64×64 with 20 frames: one training step against the straightforward version.

`python -m benchmarks.training_step` measures time, memory and the distance from the machine's limits; with a side
(`ours` or `straightforward`) and a batch size it prints the peak memory of one step in this process, and its prediction.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable
from functools import partial

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import calm_pde as cp
from benchmarks import straightforward
from benchmarks.measure import (
    copy_bandwidth,
    in_fresh_process,
    interleaved,
    keep_freed_memory,
    matmul_peak,
    report,
    spread,
    status,
)
from calm_pde.models.memory import predicted_peak
from calm_pde.neighbors import TREES
from calm_pde.nn.layer import own_queries

FRAMES = 20


def product_flops(_total: torch.Size, a: torch.Size, b: torch.Size, **_others: object) -> int:
    """2·rows·inner·columns, and that for each of a batch."""
    return 2 * math.prod(a) * b[-1]


aten = torch.ops.aten
IN_PLACE = {aten.addmm_: product_flops, aten.baddbmm_: product_flops}  # torch's counter does not know these
PRODUCTS = ("aten::mm", "aten::bmm", "aten::addmm", "aten::addmm_", "aten::baddbmm", "aten::baddbmm_")


def setting(batch: int) -> tuple[cp.CalmPDE, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = cp.CalmConfig.preset("navier_stokes_2d").build(seed=0)
    axis = torch.arange(64) / 64
    return model, torch.cartesian_prod(axis, axis), torch.randn(batch, 4096, 1), torch.randn(batch, FRAMES, 4096, 1)


def steps(batch: int) -> tuple[cp.CalmPDE, dict[str, Callable[[], torch.Tensor]]]:
    model, grid, values, target = setting(batch)

    def loss_of(u: torch.Tensor) -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        loss = ((u - target).square().sum(2) / target.square().sum(2)).sqrt().mean()
        loss.backward()
        return loss.detach()

    def ours() -> torch.Tensor:
        TREES.entries.clear()  # a tree of moving queries is never found again, and the grid's is charged too
        with torch.no_grad():  # as an optimizer's step would move them
            for queries in own_queries(dict(model.named_parameters())).values():
                queries += 1e-4 * torch.randn_like(queries)
        z, p = model.encode(values, grid)
        return loss_of(model.decode(model.advance(z, p, FRAMES - 1), p, grid))

    def plain() -> torch.Tensor:
        z, p = straightforward.encode(model, values, grid)
        return loss_of(straightforward.decode(model, straightforward.advance(model, z, p, FRAMES - 1), p, grid))

    return model, {"straightforward": plain, "ours": ours}


def peak(side: str, batch: int) -> None:
    model, programs = steps(batch)
    predicted = predicted_peak(model, 4096, batch, FRAMES - 1) if side == "ours" else 0
    before = status("VmRSS")
    programs[side]()
    print(f"{status('VmHWM') - before} {predicted}")


def per_layer(model: cp.CalmPDE, batch: int, flops_peak: float) -> list[str]:
    """Forward and backward of each part alone: time, products' share of it, achieved share of the matmul peak."""
    _, grid, values, _ = setting(batch)
    z, p = model.encode(values, grid)
    parts: dict[str, Callable[[], torch.Tensor]] = {}
    x, cloud = values, grid
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        if name == "decoder":
            parts["latent steps"] = partial(model.advance, z.detach().requires_grad_(), p, FRAMES - 1)
            x, cloud = model.advance(z, p, FRAMES - 1), p
        for depth, layer in enumerate(stack):
            outside = grid if layer.queries is None else None
            given = x.detach().requires_grad_(name == "decoder" or depth > 0)
            parts[f"{name} {depth + 1}"] = lambda layer=layer, given=(given, cloud, outside): layer(*given)[0]
            x, cloud = layer(x, cloud, outside)
    rows = ["| part | time | GFLOP | products' share of the time | share of the matmul peak |", "|---|---|---|---|---|"]
    for name, part in parts.items():
        out = part()
        grad = torch.randn_like(out)
        seconds = min(interleaved({"": lambda part=part, grad=grad: part().backward(grad)}, 8)[""])
        with FlopCounterMode(display=False, custom_mapping=IN_PLACE) as counter:
            part().backward(grad)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            part().backward(grad)
        averages = seen.key_averages()
        total = sum(event.self_cpu_time_total for event in averages)
        inside = sum(event.self_cpu_time_total for event in averages if event.key in PRODUCTS)
        flops = counter.get_total_flops()
        rows.append(
            f"| {name} | {1000 * seconds:.0f} ms | {flops / 1e9:.2f} | {100 * inside / total:.0f} % "
            f"| {100 * flops / seconds / flops_peak:.0f} % |"
        )
    return rows


def floor(model: cp.CalmPDE, batch: int, flops: int, flops_peak: float, bandwidth: float) -> tuple[float, float]:
    """Seconds for the counted operations at the matmul peak, and for moving what must move once forward and once backward."""
    moved, cloud = sum(parameter.numel() for parameter in model.parameters()), 4096
    for stack, rows in ((model.encoder, batch), (model.decoder, batch * FRAMES)):
        for layer in stack:
            queries = 4096 if layer.num_queries is None else layer.num_queries
            saved = 2 if layer.mlp is not None else 1  # the convolution's output and the layer's
            moved += rows * (cloud * layer.in_channels + saved * queries * layer.out_channels)
            cloud = queries
    width, tokens = model.config.processor_width, batch * model.config.encoder.num_queries[-1]
    moved += (FRAMES - 1) * tokens * width * 13 * model.config.processor.blocks
    return flops / flops_peak, 2 * 4 * moved / bandwidth


def main() -> None:
    batch = 8
    allocator = keep_freed_memory()
    model, programs = steps(batch)
    wanted, found = programs["straightforward"](), programs["ours"]()
    agreement = abs(float(wanted - found)) / float(wanted)
    flops_peak, bandwidth = matmul_peak(), copy_bandwidth()
    times = interleaved(programs, 10)
    flops_peak, bandwidth = max(flops_peak, matmul_peak()), max(bandwidth, copy_bandwidth())
    with FlopCounterMode(display=False, custom_mapping=IN_PLACE) as counter:
        programs["ours"]()
    flops = counter.get_total_flops()
    calculation, movement = floor(model, batch, flops, flops_peak, bandwidth)
    model_grid = setting(batch)[1]
    search = min(interleaved({"": lambda: (TREES.entries.clear(), model.neighbors(model_grid, model_grid))}, 8)[""])
    ratio = min(times["straightforward"]) / min(times["ours"])
    pairs = [a / b for a, b in zip(times["straightforward"], times["ours"], strict=True)]
    peaks = {side: [int(value) for value in in_fresh_process("training_step", side, str(batch)).split()] for side in programs}
    large = [int(value) for value in in_fresh_process("training_step", "ours", "32").split()]
    ours = min(times["ours"])
    taken, limit = peaks["ours"][0] / 2**20, calculation + movement
    report(
        "training_step",
        [
            f"Training step of the 2-D Navier-Stokes preset: 64×64, {FRAMES} frames, batch {batch}, float32; 10 interleaved.",
            "",
            f"- straightforward: {spread(times['straightforward'])}",
            f"- ours: {spread(times['ours'])}",
            f"- time ratio: **{ratio:.2f}** of the minima; pair by pair {min(pairs):.2f} … {max(pairs):.2f}, "
            f"median {statistics.median(pairs):.2f}",
            f"- losses of both sides differ by {agreement:.1e} relative",
            f"- peak memory of a step: {peaks['straightforward'][0] / 2**20:.0f} MiB against {taken:.0f} MiB, ratio "
            f"**{peaks['straightforward'][0] / peaks['ours'][0]:.1f}**; predicted {peaks['ours'][1] / 2**20:.0f} MiB",
            f"- batch 32: peak {large[0] / 2**20:.0f} MiB, predicted {large[1] / 2**20:.0f} MiB",
            f"- {allocator}",
            f"- machine in this run: {flops_peak / 1e9:.0f} GFLOP/s in a 2048² product, {bandwidth / 1e9:.1f} GB/s copy",
            f"- floor: {flops / 1e9:.1f} GFLOP at the peak {1000 * calculation:.0f} ms + bytes {1000 * movement:.0f} ms = "
            f"{1000 * limit:.0f} ms; ours takes **{ours / limit:.2f}** times that",
            f"- all searches of the step, with all trees built anew: {1000 * search:.0f} ms, {100 * search / ours:.1f} % of it",
            "",
            *per_layer(model, batch, flops_peak),
        ],
    )


if __name__ == "__main__":
    if len(sys.argv) == 3:
        peak(sys.argv[1], int(sys.argv[2]))
    else:
        main()
