"""The sizes of LNO in the paper's hyperparameter table, by problem, those published with it for steady ones, and small ones."""

from __future__ import annotations

from typing import Any

_STEADY: dict[str, Any] = {"dim": 2, "task": "steady", "in_channels": 2, "out_channels": 1, "modes": 256}

PRESETS: dict[str, dict[str, Any]] = {
    "burgers_1d": {
        "dim": 1,
        "periodic": True,
        "in_channels": 1,
        "out_channels": 1,
        "width": 96,
        "projector_layers": 3,
        "blocks": 4,
    },
    "navier_stokes_2d": {"dim": 2, "periodic": True, "in_channels": 1, "out_channels": 1, "width": 192},
    "compressible_3d": {"dim": 3, "periodic": True, "in_channels": 5, "out_channels": 5, "width": 128},
    "airfoil_2d": {"dim": 2, "in_channels": 4, "out_channels": 4, "width": 192},
    "cylinder_2d": {"dim": 2, "in_channels": 3, "out_channels": 3, "width": 176, "node_types": (0, 4, 5, 6)},
    "steady_airfoil": _STEADY | {"width": 128},
    "elasticity": _STEADY | {"width": 192, "projector_layers": 3, "blocks": 4, "coordinates": False},
}

_SMALL: dict[str, Any] = {"width": 64, "modes": 64, "blocks": 4, "start": "spread"}

PRESETS |= {f"{name}_small": paper | _SMALL for name, paper in PRESETS.items()}
