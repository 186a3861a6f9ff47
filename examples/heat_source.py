"""Design through a surrogate: the power of a moving heat source at which the hottest point of a plate just stays below a limit.

Run: python examples/heat_source.py (makes data and trains for some minutes); with --small in seconds, and worth as much.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import calm_pde as cp
from calm_pde.train.config import Recipe

SMALL = "--small" in sys.argv
PROBLEM = {"points": 100 if SMALL else 300, "frames": 4 if SMALL else 7, "time_step": 30.0, "conductivity": 30.0, "speed": 2e-4}
LAYERS = {"receptive_field": [0.1, 0.4], "temperature": [0.3, 0.3]}
MODEL = {
    "kind": "calm",
    "encoder": {"channels": [16, 32], "num_queries": [64, 16], **LAYERS},
    "decoder": {"channels": [16], "num_queries": [64], "receptive_field": [0.4, 0.1], "temperature": [0.3, 0.3]},
    "node_types": [0, 1, 2, 6],
}
TRAIN = {"epochs": 2 if SMALL else 60, "batch_size": 4, "learning_rate": 3e-3, "threads": 1, "curriculum": False}
LIMIT = 420.0  # K


def main() -> None:
    folder = Path("heat_small" if SMALL else "heat_source")
    folder.mkdir(exist_ok=True)
    data = folder / "plates.h5"
    file = cp.DataFile(data) if data.exists() else cp.generate("heat", data, samples=10 if SMALL else 100, **PROBLEM)
    recipe = Recipe.model_validate({"name": "heat", "data": {"file": data}, "model": MODEL, "train": TRAIN})
    surrogate = cp.fit(recipe, folder / "run").surrogate
    sample = file.trajectory(int(file.indices("test")[0]))
    times, names = file.description.times, file.description.parameters
    module = surrogate.differentiable(sample.points, node_type=sample.node_type).double()
    wall = (sample.signal_times, sample.signals[:, 0])
    height = sample.parameters[names.index("source_y")]

    def hottest(power: torch.Tensor) -> torch.Tensor:
        told = {"power": power, "source_y": height}
        return module(
            sample.fields[0], told, {"wall_temperature": wall}, prescribed={"temperature": sample.fields[1:, :, 0]}
        ).max()

    power = torch.tensor(60.0, dtype=torch.float64, requires_grad=True)
    for step in range(6):  # Newton's method on hottest(power) = LIMIT
        warmth = hottest(power)
        (slope,) = torch.autograd.grad(warmth, power)
        print(f"step {step}: {power.item():6.2f} W, hottest {warmth.item():6.1f} K, {slope.item():.2f} K per W")
        power = (power + (LIMIT - warmth) / slope).clamp(20.0, 100.0).detach().requires_grad_()
    print(f"{power.item():.1f} W keep the plate below {LIMIT:g} K until t = {times[-1]:g} s")


if __name__ == "__main__":
    main()
