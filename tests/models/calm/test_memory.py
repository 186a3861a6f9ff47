"""The predicted peak of a step against the one that the operating system saw, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch

import calm_pde as cp
from calm_pde.errors import ConfigError
from calm_pde.models import MODELS
from calm_pde.models.calm.memory import predicted_peak
from calm_pde.models.live_bytes import LiveBytes
from calm_pde.models.size import check_memory, num_parameters, predicted_parameters

SCRIPT = """
import json, sys, torch, calm_pde as cp
from pathlib import Path
from calm_pde.models.calm.memory import predicted_peak
from calm_pde.records.inputs import Frames

name, (side, batch, steps, training) = sys.argv[1], map(int, sys.argv[2:6])
def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])

model = cp.CalmConfig.preset(name, **json.loads(sys.argv[6])).build()
config, dim, told = model.config, model.config.dim, {}
axis = torch.arange(side) / side
grid = torch.cartesian_prod(*[axis] * dim).view(-1, dim)
values = torch.randn(batch, 1 + steps * bool(config.consistency), len(grid), config.in_channels)
for kind, *shape in (("parameters",), ("signals", 1 + steps), ("features", len(grid))):
    if getattr(config, kind):
        told[kind] = torch.randn(batch, *shape, getattr(config, kind))
predicted = predicted_peak(model, len(grid), batch, steps, training=bool(training))
before = status("VmRSS")
if training:
    u, added = model.training_answer(Frames(values, grid, **told), [float(step) for step in range(1, steps + 1)])
    ((u - torch.zeros_like(u)).square().mean() + torch.as_tensor(added).mean()).backward()
else:
    with torch.no_grad():
        model(values[:, 0], grid, steps, **told)
print(predicted, status("VmHWM") - before)
"""


TOLD = {"parameters": 3, "signals": 2, "features": 2, "integrator": "rk4"}


def measured(name: str, *numbers: int, **changes: Any) -> tuple[int, int]:
    command = [sys.executable, "-c", SCRIPT, name, *map(str, numbers), json.dumps(changes)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    predicted, peak = map(int, run.stdout.split())
    return predicted, peak


def check(predicted: int, peak: int) -> None:
    if predicted >= 500 * 10**6:
        assert 0.9 < peak / predicted < 1.1, (predicted, peak)
    else:
        assert peak < predicted + 60 * 10**6, (predicted, peak)


@pytest.mark.parametrize(
    "setting",
    [
        ("navier_stokes_2d", 64, 16, 19, 1),
        ("navier_stokes_2d", 64, 4, 19, 0),
        ("burgers_1d", 1024, 8, 20, 1),
    ],
    ids=str,
)
def test_predicted_peak(setting):
    check(*measured(*setting))


def test_predicted_peak_where_all_frames_are_encoded():
    check(*measured("navier_stokes_2d", 64, 8, 19, 1, consistency=1))


@pytest.mark.parametrize("kernels", [False, True], ids=["processor alone", "kernels too"])
def test_predicted_peak_under_conditions(kernels):
    """The processor remembers an eighth of the whole for them; kernels of each sample's own are not kept, a fifth less."""
    predicted, peak = measured("burgers_1d", 1024, 16, 40, 1, **TOLD, conditioned_kernels=kernels)
    assert 0.93 < peak / predicted < 1.07, (predicted, peak)


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting",
    [
        ("navier_stokes_2d", 64, 8, 19, 1),
        ("navier_stokes_2d", 64, 32, 19, 1),
        ("navier_stokes_2d", 64, 64, 19, 0),
        ("burgers_1d", 1024, 64, 40, 1),
        ("compressible_3d", 16, 4, 20, 1),
        ("compressible_3d", 16, 8, 20, 1),
        ("compressible_3d", 32, 1, 20, 1),
        ("airfoil_2d", 72, 16, 15, 1),
    ],
    ids=str,
)
def test_predicted_peak_over_the_presets(setting):
    check(*measured(*setting))


@pytest.mark.slow
@pytest.mark.parametrize("kernels", [False, True], ids=["processor alone", "kernels too"])
def test_predicted_peak_under_conditions_in_2d(kernels):
    check(*measured("navier_stokes_2d", 64, 16, 19, 1, **TOLD, conditioned_kernels=kernels))


def test_live_bytes_follow_storages():
    with LiveBytes() as count:
        a = torch.empty(1000)
        view = a[:10]
        b = torch.empty(500)
        del a
        assert count.now == 6000  # a view keeps its storage alive
        del view
        assert count.now == 2000
        del b
    assert count.now == 0
    assert count.peak == 6000


def test_a_smaller_budget_takes_less():
    peaks = [
        predicted_peak(cp.CalmConfig.preset("navier_stokes_2d", memory_budget=budget).build(), 4096, 8, 19)
        for budget in (2**23, 2**29)
    ]
    assert peaks[0] < peaks[1]


@pytest.mark.parametrize(("sizes", "name"), [((0, 8, 2), "num_points"), ((64, 0, 2), "batch"), ((64, 8, -1), "num_steps")])
def test_impossible_sizes_are_named(sizes, name):
    with pytest.raises(ValueError, match=f"{name}: expected"):
        predicted_peak(cp.CalmConfig.preset("burgers_1d").build(), *sizes)


@pytest.mark.parametrize("kind", MODELS)
def test_parameters_are_counted_before_they_are_made(kind):
    config = MODELS[kind].preset(next(iter(MODELS[kind].presets)), in_channels=2, out_channels=2)
    state = torch.random.get_rng_state()
    assert predicted_parameters(config).numbers == num_parameters(config.build())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_model_larger_than_the_machine_is_refused_with_the_numbers():
    wide = cp.CalmConfig.preset("burgers_1d", processor={"width": 4_000_000, "heads": 1})
    with pytest.raises(
        ConfigError, match=r"model: its [\d,]+ parameters take [\d,.]+ GiB in training.*this machine has .* GiB"
    ):
        check_memory(wide)
    check_memory(cp.CalmConfig.preset("burgers_1d"))
