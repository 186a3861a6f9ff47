"""Geo-FNO's sizes in the paper's hyperparameter table, by problem, and a small one for each.

The table's six layers do not fit its counts; five do. The size of the latent grid is the original's. The steady ones are wider,
with fewer modes; docs/baselines.md says what is known of the published ones.
"""

from __future__ import annotations

from typing import Any

_AIRFOIL: dict[str, Any] = {"dim": 2, "in_channels": 4, "out_channels": 4}
_CYLINDER: dict[str, Any] = {"dim": 2, "in_channels": 3, "out_channels": 3, "node_types": (0, 4, 5, 6)}
_PAPER: dict[str, Any] = {"width": 24, "modes": 14, "latent_size": 40, "paper_param_count": True}
_STEADY: dict[str, Any] = {"dim": 2, "task": "steady", "in_channels": 2, "out_channels": 1}
_STEADY_PAPER: dict[str, Any] = {"width": 32, "modes": 12, "latent_size": 40}
_SMALL: dict[str, Any] = {"width": 16, "modes": 8, "latent_size": 32}

PRESETS: dict[str, dict[str, Any]] = {
    "airfoil_2d": _AIRFOIL | _PAPER,
    "airfoil_2d_small": _AIRFOIL | _SMALL,
    "cylinder_2d": _CYLINDER | _PAPER,
    "cylinder_2d_small": _CYLINDER | _SMALL,
    "steady_airfoil": _STEADY | _STEADY_PAPER,
    "steady_airfoil_small": _STEADY | _SMALL,
    "elasticity": _STEADY | _STEADY_PAPER,
    "elasticity_small": _STEADY | _SMALL,
}
