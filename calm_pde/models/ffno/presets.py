"""F-FNO's sizes in the paper's hyperparameter table, by problem, and a small one for each.

The table's six layers on scattered points do not fit its counts; five do, with weight norm and a hidden layer twice as wide.
The steady ones are as deep as published, 24 layers in the original's way of counting; docs/baselines.md says what is known of
them.
"""

from __future__ import annotations

from typing import Any

_BURGERS: dict[str, Any] = {"form": "grid", "dim": 1, "periodic": True, "in_channels": 1, "out_channels": 1}
_NAVIER_STOKES: dict[str, Any] = {"form": "grid", "dim": 2, "periodic": True, "in_channels": 1, "out_channels": 1}
_COMPRESSIBLE: dict[str, Any] = {"form": "grid", "dim": 3, "periodic": True, "in_channels": 5, "out_channels": 5}
_POINTS: dict[str, Any] = {"form": "points", "dim": 2, "layers": 5, "expansion": 2, "weight_norm": True}
_AIRFOIL: dict[str, Any] = _POINTS | {"in_channels": 4, "out_channels": 4}
_CYLINDER: dict[str, Any] = _POINTS | {"in_channels": 3, "out_channels": 3, "node_types": (0, 4, 5, 6)}
_STEADY: dict[str, Any] = _POINTS | {"task": "steady", "in_channels": 2, "out_channels": 1}
_STEADY_PAPER: dict[str, Any] = {"layers": 25, "width": 64, "modes": 12, "latent_size": 64}
_PAPER: dict[str, Any] = {"width": 24, "modes": 14, "latent_size": 40, "paper_param_count": True}
_SMALL: dict[str, Any] = {"width": 24, "modes": 8, "latent_size": 32}

PRESETS: dict[str, dict[str, Any]] = {
    "burgers_1d": _BURGERS | {"width": 64, "modes": 16},
    "burgers_1d_small": _BURGERS | {"width": 32, "modes": 16},
    "navier_stokes_2d": _NAVIER_STOKES | {"width": 24, "modes": 14},
    "navier_stokes_2d_small": _NAVIER_STOKES | {"width": 32, "modes": 12},
    "compressible_3d": _COMPRESSIBLE | {"width": 20, "modes": 12},
    "compressible_3d_small": _COMPRESSIBLE | {"width": 32, "modes": 8},
    "airfoil_2d": _AIRFOIL | _PAPER,
    "airfoil_2d_small": _AIRFOIL | _SMALL,
    "cylinder_2d": _CYLINDER | _PAPER,
    "cylinder_2d_small": _CYLINDER | _SMALL,
    "steady_airfoil": _STEADY | _STEADY_PAPER,
    "steady_airfoil_small": _STEADY | _SMALL,
    "elasticity": _STEADY | _STEADY_PAPER,
    "elasticity_small": _STEADY | _SMALL,
}
