"""A tiny suite that the tests of this folder share, results made up, and a campaign that kills itself.

`python -m tests.bench.campaigns RUN STEP SUITE OUT` is `calm bench SUITE --out OUT` that SIGKILLs itself after a step of a run.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from calm_pde.bench.measured.clock import ClockShow
from calm_pde.bench.measured.measure import Measured
from calm_pde.bench.measured.result import Result, Validated
from calm_pde.bench.runs import campaign
from calm_pde.bench.runs.job import SuiteJob
from calm_pde.bench.runs.suite import Suite, load_suite
from calm_pde.train.loop import Trainer
from tests.train.runs import RECIPE, SAMPLE

MEASURED = Measured(inference_seconds=0.5, inference_bytes=2**20, step_bytes=2**21, batch=2)
TIMES = {"training_seconds", "seconds_per_step", "inference_seconds", "inference_bytes", "step_bytes", "curve", "date"}

SUITE: dict[str, Any] = {
    "name": "tiny",
    "size": "small",
    "train": {"batch_size": 4, "first_length": 2},
    "data": {
        "sample": {
            "title": "The sample",
            "problem": "navier_stokes_2d",
            "file": str(SAMPLE),
            "frame_stride": 4,
        }
    },
    "models": {
        "fno": {"model": {"width": 4, "modes": 4}},
        "calm": {"model": {name: RECIPE["model"][name] for name in ("encoder", "decoder", "processor")}},
    },
    "paper": {"sample": {"fno": "0.0811 ± 0.0004", "calm": "0.0301 ± 0.0014", "LE-PDE": "0.5"}},
}


FNO = {"kind": "fno", "model": {"width": 4, "modes": 4}}
SEARCH: dict[str, Any] = {
    "seeds": [3, 4],
    "search": {
        "steps": 2,
        "strongest": 2,
        "settings": {"slow": {"learning_rate": 1e-3}, "fast": {"learning_rate": 3e-3, "optimizer": "muon"}},
    },
    "models": {"first": FNO, "second": FNO, "third": FNO, "mine": FNO | {"ours": True}, "fixed": FNO | {"search": False}},
    "paper": {},
}
"""A search of the two strongest of three, and of ours, as changes of the tiny suite."""


def suite(**changes: Any) -> Suite:
    return Suite.model_validate(SUITE | changes)


def write_suite(folder: Path, **changes: Any) -> Path:
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(SUITE | changes, sort_keys=False))
    return path


def job(out: Path, steps: int = 4, **changes: Any) -> SuiteJob:
    """In this process, without a word."""
    return SuiteJob(suite(**changes), out, Console(quiet=True), steps=steps)


def result(**changes: Any) -> Result:
    """One that was never run."""
    known: dict[str, Any] = {
        "data": "sample",
        "model": "fno",
        "title": "FNO",
        "seed": 0,
        "kind": "fno",
        "preset": "navier_stokes_2d_small",
        "error": 0.125,
        "sample_spread": 0.01,
        "baseline": 0.5,
        "baseline_kind": "persistence",
        "diverged": 0,
        "parameters": 1000,
        "latent_numbers": 64,
        "steps": 300,
        "epochs": 30,
        "batch_size": 8,
        "minutes": 3.0,
        "training_seconds": 180.0,
        "seconds_per_step": 0.6,
        "step_bytes": 2**28,
        "inference_seconds": 0.25,
        "inference_bytes": 2**26,
        "curve": ((60.0, 0.4), (120.0, 0.2), (180.0, 0.13)),
        "fingerprint": "abc",
        "commit": "1234567",
        "machine": "a machine",
        "date": "2026-01-01 00:00 UTC",
    }
    return Result.model_validate(known | changes)


def validated(**changes: Any) -> Validated:
    """A run of a search that was never run."""
    shared = result().model_dump(include=set(Validated.model_fields))
    return Validated.model_validate(shared | {"setting": "slow", "minutes": 1.0} | changes)


def lasting(found: Result | Validated) -> dict[str, Any]:
    """All of a result but the times."""
    return found.model_dump(exclude=TIMES)


class DeadlyShow(ClockShow):
    """Ends its own process after one step of one run."""

    runs = 0
    run_to_die = step_to_die = -1

    def begin(self, trainer: Trainer) -> None:
        type(self).runs += 1
        super().begin(trainer)

    def step(self, trainer: Trainer, loss: float) -> None:
        super().step(trainer, loss)
        if self.runs == self.run_to_die and trainer.position.step == self.step_to_die:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    run, step, path, out = sys.argv[1:]
    DeadlyShow.run_to_die, DeadlyShow.step_to_die = int(run), int(step)
    campaign.ClockShow = DeadlyShow
    campaign.measured = lambda _: MEASURED
    SuiteJob(load_suite(path), Path(out), Console(), steps=4).run()


if __name__ == "__main__":
    main()
