"""The `calm` command."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import torch
import tyro
from rich.console import Console
from rich.table import Table

from calm_pde.errors import CalmError
from calm_pde.models import CalmConfig
from calm_pde.types import Tensor

Result = TypeVar("Result")


def demo(preset: str = "navier_stokes_2d", num_steps: int = 19, seed: int = 0) -> None:
    """Encode, roll out and decode with an untrained preset, on a 64×64 grid and on a random point cloud.

    Args:
        preset: A two-dimensional preset of the paper.
        num_steps: How many frames to roll out.
        seed: Of the weights and of the random values.
    """
    console = Console()
    config = CalmConfig.preset(preset)
    if config.dim != 2 or config.task != "rollout" or config.node_types:
        raise CalmError(f"preset: the demo shows a 2-D rollout without node types, got {preset!r}. Try navier_stokes_2d.")
    model = config.build(seed=seed).eval()
    draw = torch.Generator().manual_seed(seed)
    axis = torch.arange(64) / 64
    clouds = {
        "64×64 grid": torch.cartesian_prod(axis, axis),
        "4096 random points": torch.rand(4096, 2, generator=draw),
    }
    parameters = sum(parameter.numel() for parameter in model.parameters())
    console.print(f"Untrained {preset}: {parameters:,} parameters, one sample, {num_steps} steps, float32.")
    table = Table("points", "stage", "shape", "parameters", "time", "peak memory")
    for name, points in clouds.items():
        values = torch.randn(1, len(points), config.in_channels, generator=draw)
        with torch.no_grad():
            (z, p), *encoded = _measured(lambda values=values, points=points: model.encode(values, points))
            zs, *stepped = _measured(lambda z=z, p=p: model.advance(z, p, num_steps))
            u, *decoded = _measured(lambda zs=zs, p=p, points=points: model.decode(zs, p, points))
        table.add_row(name, "input", _shape(values), "", "", "")
        table.add_row("", "encode", _shape(z), _count(model.encoder), *encoded)
        table.add_row("", "advance", _shape(zs), _count(model.processor), *stepped)
        table.add_row("", "decode", _shape(u), _count(model.decoder), *decoded, end_section=True)
    console.print(table)


COMMANDS = {"demo": demo}


def main(arguments: list[str] | None = None) -> None:
    """Fast neural surrogates of time-dependent PDEs on any mesh."""
    try:
        tyro.extras.subcommand_cli_from_dict(COMMANDS, prog="calm", description=main.__doc__, args=arguments)
    except CalmError as error:
        Console(stderr=True).print(f"calm: {error}", style="red", markup=False)
        sys.exit(2)


def _measured(stage: Callable[[], Result]) -> tuple[Result, str, str]:
    """The stage's result, its time on a second run, and the highest memory this process has used so far."""
    stage()
    start = time.perf_counter()
    result = stage()
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024  # kilobytes everywhere else
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return result, f"{1000 * seconds:.0f} ms", f"{peak / 2**20:.0f} MiB"


def _shape(tensor: Tensor) -> str:
    return " × ".join(map(str, tensor.shape))


def _count(module: torch.nn.Module | None) -> str:
    return f"{sum(parameter.numel() for parameter in module.parameters()):,}" if module else "0"
