"""The sizes of Transolver on steady problems as benchmarks have them, the same in time, and small ones."""

from __future__ import annotations

from typing import Any

_WIDE: dict[str, Any] = {"width": 128, "blocks": 8}
_STEADY: dict[str, Any] = {
    "dim": 2,
    "task": "steady",
    "in_channels": 2,
    "out_channels": 1,
    "coordinates": False,
}
"""What is given are the coordinates."""

PRESETS: dict[str, dict[str, Any]] = {
    "steady_airfoil": _STEADY | _WIDE | {"layout": "grid", "shape": (221, 51)},
    "elasticity": _STEADY | _WIDE,
    "navier_stokes_2d": {"dim": 2, "periodic": True, "in_channels": 1, "out_channels": 1} | _WIDE,
    "airfoil_2d": {"dim": 2, "in_channels": 4, "out_channels": 4} | _WIDE,
    "cylinder_2d": {"dim": 2, "in_channels": 3, "out_channels": 3, "node_types": (0, 4, 5, 6)} | _WIDE,
}

_SMALL: dict[str, Any] = {"width": 64, "heads": 4, "blocks": 4, "slices": 32, "layout": "points", "shape": ()}

PRESETS |= {f"{name}_small": size | _SMALL for name, size in PRESETS.items()}
PRESETS["steady_airfoil_small"] |= {
    "coordinates": True
}  # the small data are normalized point by point: no place is left in them
