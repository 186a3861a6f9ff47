"""Sizes of MeshGraphNets: the published ones, and small ones."""

from __future__ import annotations

from typing import Any

_GRID: dict[str, Any] = {"dim": 2, "periodic": True, "in_channels": 1, "out_channels": 1}

PRESETS: dict[str, dict[str, Any]] = {
    # as published, of velocity alone and with nine kinds of points; data of other fields and kinds change both ends
    "cylinder_2d": {"dim": 2, "in_channels": 2, "out_channels": 2, "node_types": tuple(range(9))},
    "airfoil_2d": {"dim": 2, "in_channels": 3, "out_channels": 3, "node_types": tuple(range(9))},
    "burgers_1d": _GRID | {"dim": 1},
    "navier_stokes_2d": _GRID,
    "compressible_3d": _GRID | {"dim": 3, "in_channels": 5, "out_channels": 5},
}

_SMALL: dict[str, Any] = {"width": 48, "steps": 8}

PRESETS |= {f"{name}_small": published | _SMALL for name, published in PRESETS.items()}
