"""FNO's sizes in the paper's hyperparameter table, by problem, and a small one for each.

The small ones don't pad, since their fields are periodic.
"""

from __future__ import annotations

from typing import Any

_BURGERS: dict[str, Any] = {"dim": 1, "periodic": True, "in_channels": 1, "out_channels": 1}
_NAVIER_STOKES: dict[str, Any] = {"dim": 2, "periodic": True, "in_channels": 1, "out_channels": 1}
_COMPRESSIBLE: dict[str, Any] = {"dim": 3, "periodic": True, "in_channels": 5, "out_channels": 5}
_PAPER: dict[str, Any] = {"paper_param_count": True}

PRESETS: dict[str, dict[str, Any]] = {
    "burgers_1d": _BURGERS | _PAPER | {"width": 64, "modes": 16, "padding": 2},
    "burgers_1d_small": _BURGERS | {"width": 32, "modes": 16},
    "navier_stokes_2d": _NAVIER_STOKES | _PAPER | {"width": 24, "modes": 14, "padding": 2},
    "navier_stokes_2d_small": _NAVIER_STOKES | {"width": 16, "modes": 10},
    "compressible_3d": _COMPRESSIBLE | _PAPER | {"width": 20, "modes": 12, "padding": (0, 0, 6)},
    "compressible_3d_small": _COMPRESSIBLE | {"width": 14, "modes": 4},
}
