"""Sizes of the U-Net on grids: our own, since nobody has published one for these problems, and small ones."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "burgers_1d": {"dim": 1, "periodic": True, "in_channels": 1, "out_channels": 1},
    "navier_stokes_2d": {"dim": 2, "periodic": True, "in_channels": 1, "out_channels": 1},
    "compressible_3d": {"dim": 3, "periodic": True, "in_channels": 5, "out_channels": 5},
}

PRESETS |= {f"{name}_small": {**sizes, "width": {1: 16, 2: 8, 3: 8}[sizes["dim"]]} for name, sizes in PRESETS.items()}
