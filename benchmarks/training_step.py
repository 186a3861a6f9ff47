"""The paper's 2-D Navier-Stokes preset at 64×64 with 20 frames: one training step against the straightforward version.

`python -m benchmarks.training_step` measures time, memory and the distance from the machine's limits; with a side
(`ours` or `straightforward`) and a batch size it prints the peak memory of one step in this process, and its prediction; with
`defaults` the times of all sides with the allocator as it is.
"""

from __future__ import annotations

import json
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
from calm_pde.engine.plan import Sizes
from calm_pde.engine.receptive_fields import TREES, neighborhood_size
from calm_pde.models.calm.memory import predicted_peak
from calm_pde.nn.query_points import own_queries

FRAMES = 20
REPEATS = 40  # over minutes: the two cores of a virtual machine share a cache for some of them only
NARROW = "ours in bfloat16"


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


@torch.no_grad()
def moved(model: cp.CalmPDE) -> None:
    """Query points as an optimizer's step leaves them, and no tree that would be found again."""
    TREES.entries.clear()
    for queries in own_queries(dict(model.named_parameters())).values():
        queries += 1e-4 * torch.randn_like(queries)


def steps(batch: int) -> tuple[cp.CalmPDE, dict[str, Callable[[], torch.Tensor]]]:
    model, grid, values, target = setting(batch)

    def loss_of(u: torch.Tensor) -> torch.Tensor:
        model.zero_grad(set_to_none=True)
        loss = ((u - target).square().sum(2) / target.square().sum(2)).sqrt().mean()
        loss.backward()
        return loss.detach()

    def step() -> torch.Tensor:
        moved(model)
        z, p = model.encode(values, grid)
        return model.decode(model.advance(z, p, FRAMES - 1), p, grid)

    def ours() -> torch.Tensor:
        return loss_of(step())

    def narrow() -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            u = step()
        return loss_of(u.float())

    def plain() -> torch.Tensor:
        z, p = straightforward.encode(model, values, grid)
        return loss_of(straightforward.decode(model, straightforward.advance(model, z, p, FRAMES - 1), p, grid))

    programs = {"straightforward": plain}
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        programs[NARROW] = narrow
    return model, {**programs, "ours": ours}  # last: in training a step follows one of ours


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
            count = neighborhood_size(layer.receptive_field, cloud)
            inputs, outputs, hidden = layer.in_channels, layer.out_channels, len(layer.kernel.filters)
            plan = layer.plan(Sizes(cloud, queries, count, rows, inputs, outputs, hidden, layer.mlp is not None))
            moved += rows * (cloud * inputs + queries * outputs)
            saved = {
                "keep": rows * queries * outputs,
                "keep_hidden": 4 * rows * queries * outputs,
                "keep_geometry": queries * count * hidden,
                "keep_lifted": rows * cloud * hidden * outputs,
            }
            moved += sum(size for name, size in saved.items() if getattr(plan, name) and (layer.mlp or name != "keep"))
            cloud = queries
    width, tokens = model.config.processor_width, batch * model.config.encoder.num_queries[-1]
    moved += (FRAMES - 1) * tokens * width * 15 * model.config.processor.blocks
    return flops / flops_peak, 2 * 4 * moved / bandwidth


def searches_of_own_meshes(batch: int = 8, points: int = 1900, frames: int = 11) -> str:
    """The share of the searches in a step where every sample has a mesh of its own that was never seen before."""
    model = cp.CalmConfig.preset("cylinder_2d").build(seed=0)
    kinds = torch.zeros(batch, points, dtype=torch.int64)
    values, target = torch.randn(batch, points, 3), torch.randn(batch, frames, points, 3)

    def search() -> None:
        meshes = torch.rand(batch, points, 2)
        moved(model)
        model.neighbors(meshes, meshes)

    def step() -> None:
        meshes = torch.rand(batch, points, 2)
        moved(model)
        model.zero_grad(set_to_none=True)
        z, p = model.encode(values, meshes, node_type=kinds)
        (model.decode(model.advance(z, p, frames - 1), p, meshes) - target).square().mean().backward()

    times = {name: min(taken) for name, taken in interleaved({"search": search, "step": step}, 8).items()}
    return (
        f"{batch} meshes of {points:,} points, new at every step (cylinder preset, {frames} frames): searches "
        f"{1000 * times['search']:.0f} of {1000 * times['step']:.0f} ms, {100 * times['search'] / times['step']:.1f} %"
    )


def with_peaks(programs: dict[str, Callable[[], torch.Tensor]]) -> tuple[dict[str, list[float]], float, float]:
    """The times of all sides, and the machine's matmul peak and copy bandwidth just before or after, whichever is higher."""
    flops_peak, bandwidth = matmul_peak(), copy_bandwidth()
    times = interleaved(programs, REPEATS)
    return times, max(flops_peak, matmul_peak()), max(bandwidth, copy_bandwidth())


def defaults(batch: int = 8) -> None:
    """The least time of each side in seconds, and the machine's peaks meanwhile, with the allocator as it is."""
    times, *peaks = with_peaks(steps(batch)[1])
    print(json.dumps([{name: min(taken) for name, taken in times.items()}, *peaks]))


def beside(times: dict[str, float], limit: float) -> str:
    """The sides' times, their ratios to the straightforward one, and how far ours is from the floor."""
    slowest, floors = times["straightforward"], times["ours"] / limit
    parts = [f"{name} {1000 * time:.0f} ms (ratio **{slowest / time:.2f}**)" for name, time in times.items() if time != slowest]
    return (
        f"straightforward {1000 * slowest:.0f} ms, {', '.join(parts)}; "
        f"floor {1000 * limit:.0f} ms, ours takes **{floors:.2f}** times that"
    )


def in_bfloat16(times: dict[str, list[float]]) -> str:
    if NARROW not in times:
        return "bfloat16: not measured, since this processor has no instructions for it"
    ratio = min(times["straightforward"]) / min(times[NARROW])
    return f"{NARROW}: {spread(times[NARROW])}; time ratio to straightforward float32 **{ratio:.2f}**"


def as_it_is(model: cp.CalmPDE, batch: int, flops: int) -> str:
    """All sides in a process whose allocator nobody told anything, against the floor of that moment."""
    times, *peaks = json.loads(in_fresh_process("training_step", "defaults"))
    return beside(times, sum(floor(model, batch, flops, *peaks)))


def main() -> None:
    batch = 8
    allocator = keep_freed_memory()
    model, programs = steps(batch)
    found, wanted = programs["ours"](), programs["straightforward"]()
    agreement = abs(float(wanted - found)) / float(wanted)
    times, flops_peak, bandwidth = with_peaks(programs)
    with FlopCounterMode(display=False, custom_mapping=IN_PLACE) as counter:
        programs["ours"]()
    flops = counter.get_total_flops()
    calculation, movement = floor(model, batch, flops, flops_peak, bandwidth)
    model_grid = setting(batch)[1]

    def searches() -> None:
        moved(model)
        model.neighbors(model_grid, model_grid)

    search = min(interleaved({"": searches}, 8)[""])
    ratio = min(times["straightforward"]) / min(times["ours"])
    pairs = [a / b for a, b in zip(times["straightforward"], times["ours"], strict=True)]
    peaks = {
        side: [int(value) for value in in_fresh_process("training_step", side, str(batch)).split()]
        for side in ("straightforward", "ours")
    }
    large = [int(value) for value in in_fresh_process("training_step", "ours", "32").split()]
    ours = min(times["ours"])
    taken, limit = peaks["ours"][0] / 2**20, calculation + movement
    report(
        "training_step",
        [
            f"Training step of the 2-D Navier-Stokes preset: 64×64, {FRAMES} frames, batch {batch}; {REPEATS} interleaved.",
            "",
            f"- straightforward: {spread(times['straightforward'])}",
            f"- ours: {spread(times['ours'])}",
            f"- time ratio: **{ratio:.2f}** of the minima; pair by pair {min(pairs):.2f} … {max(pairs):.2f}, "
            f"median {statistics.median(pairs):.2f}",
            f"- {in_bfloat16(times)}",
            f"- with the allocator as it is, in a process of its own: {as_it_is(model, batch, flops)}",
            f"- losses of both sides differ by {agreement:.1e} relative",
            f"- peak memory of a step: {peaks['straightforward'][0] / 2**20:.0f} MiB against {taken:.0f} MiB, ratio "
            f"**{peaks['straightforward'][0] / peaks['ours'][0]:.1f}**; predicted {peaks['ours'][1] / 2**20:.0f} MiB",
            f"- batch 32: peak {large[0] / 2**20:.0f} MiB, predicted {large[1] / 2**20:.0f} MiB",
            f"- {allocator}",
            f"- machine in this run: {flops_peak / 1e9:.0f} GFLOP/s in a 2048² product, {bandwidth / 1e9:.1f} GB/s copy",
            f"- floor: {flops / 1e9:.1f} GFLOP at the peak {1000 * calculation:.0f} ms + bytes {1000 * movement:.0f} ms = "
            f"{1000 * limit:.0f} ms; ours takes **{ours / limit:.2f}** times that",
            f"- all searches of the step, queries moved by 1e-4: {1000 * search:.0f} ms, {100 * search / ours:.1f} % of it",
            f"- {searches_of_own_meshes()}",
            "",
            *per_layer(model, batch, flops_peak),
        ],
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["defaults"]:
        defaults()
    elif len(sys.argv) == 3:
        peak(sys.argv[1], int(sys.argv[2]))
    else:
        main()
