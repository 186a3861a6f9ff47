"""UPT's published sizes on the problems of the paper, and small ones.

Time-dependent: the published 17 M configuration for flows. Steady: that of the benchmark library, in which tokens read all
points themselves.
"""

from __future__ import annotations

from typing import Any

from calm_pde.config import merged

_SUPERNODES: dict[str, Any] = {"count": 2048, "radius": 0.04, "feature_width": 96, "width": 96, "heads": 3, "blocks": 4}
_FLOW: dict[str, Any] = {
    "supernodes": _SUPERNODES,
    "tokens": 512,
    "width": 192,
    "heads": 3,
    "blocks": 4,
    "decoder_blocks": 4,
}
_STEADY: dict[str, Any] = {
    "dim": 2,
    "in_channels": 2,
    "out_channels": 1,
    "task": "steady",
    "tokens": 32,
    "width": 512,
    "heads": 8,
    "blocks": 6,
    "query_expansion": 1,
    "dropped_paths": 0.3,
}
_FIELDS: dict[str, dict[str, Any]] = {
    "burgers_1d": {"dim": 1, "periodic": True, "in_channels": 1, "out_channels": 1},
    "navier_stokes_2d": {"dim": 2, "periodic": True, "in_channels": 1, "out_channels": 1},
    "compressible_3d": {"dim": 3, "periodic": True, "in_channels": 5, "out_channels": 5},
    "airfoil_2d": {"dim": 2, "in_channels": 4, "out_channels": 4},
    "cylinder_2d": {"dim": 2, "in_channels": 3, "out_channels": 3, "node_types": (0, 4, 5, 6)},
}

_SMALL_FLOW: dict[str, Any] = {
    "supernodes": {"count": 256, "radius": 0.08, "feature_width": 48, "width": 48, "heads": 3, "blocks": 1},
    "tokens": 64,
    "width": 64,
    "heads": 4,
    "blocks": 3,
    "decoder_blocks": 1,
    "query_expansion": 2,
    "told_expansion": 1,
}
_SMALL_STEADY: dict[str, Any] = {"tokens": 32, "width": 64, "heads": 4, "blocks": 4, "dropped_paths": 0.0} | {
    "told_expansion": 1,
}

PRESETS: dict[str, dict[str, Any]] = {name: _FLOW | fields for name, fields in _FIELDS.items()}
PRESETS |= dict.fromkeys(("steady_airfoil", "elasticity"), _STEADY)
PRESETS |= {f"{name}_small": merged(PRESETS[name], _SMALL_FLOW) for name in _FIELDS}
PRESETS |= {f"{name}_small": _STEADY | _SMALL_STEADY for name in ("steady_airfoil", "elasticity")}
