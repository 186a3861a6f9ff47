"""GAOT's sizes: those that its authors print, as far as they do, and small ones; all counts are of our own layout."""

from __future__ import annotations

from typing import Any

_FIELDS: dict[str, dict[str, Any]] = {
    "burgers_1d": {"dim": 1, "periodic": True, "in_channels": 1, "out_channels": 1, "latent_size": 256, "radius": 0.01},
    "navier_stokes_2d": {"dim": 2, "periodic": True, "in_channels": 1, "out_channels": 1},
    "compressible_3d": {"dim": 3, "periodic": True, "in_channels": 5, "out_channels": 5, "latent_size": 16, "radius": 0.08}
    | {"scales": (0.7, 1.0)},
    "airfoil_2d": {"dim": 2, "in_channels": 4, "out_channels": 4},
    "cylinder_2d": {"dim": 2, "in_channels": 3, "out_channels": 3, "node_types": (0, 4, 5, 6)},
}

_SMALL: dict[str, Any] = {"width": 32, "kernel_width": 32, "statistics_width": 32, "processor_width": 64, "heads": 4} | {
    "latent_size": 16,
    "radius": 0.1,
    "scales": (0.6, 1.2),
    "depth": 1,
}
_SMALLER: dict[str, dict[str, Any]] = {
    "burgers_1d": {"latent_size": 64, "radius": 0.03},
    "compressible_3d": {"latent_size": 8, "radius": 0.12, "scales": (1.0,)},
}

PRESETS: dict[str, dict[str, Any]] = {name: {"width": 64} | fields for name, fields in _FIELDS.items()}
PRESETS |= {f"{name}_small": fields | _SMALL | _SMALLER.get(name, {}) for name, fields in _FIELDS.items()}
