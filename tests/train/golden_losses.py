"""`python -m tests.train.golden_losses` writes the first losses of a run with a fixed seed anew, with what they depend on."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calm_pde.train.record import read_record
from tests.train import runs

FILE = Path(__file__).parent / "golden" / "losses.json"
COUNT = 50


def machine() -> dict[str, Any]:
    """What losses may depend on in their last bits."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return {
        "cpu": names[0] if names else platform.processor(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": 1,
    }


def losses() -> list[float]:
    lines = read_record(runs.finished() / "metrics.jsonl")
    return [line["loss"] for line in lines if "loss" in line][:COUNT]


def main() -> None:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps({"machine": machine(), "losses": losses()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
