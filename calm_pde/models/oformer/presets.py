"""The sizes of OFormer in the paper's hyperparameter table, by problem, and small ones.

For steady problems it has the sizes of Navier-Stokes; docs/baselines.md says what is known of the published ones.
"""

from __future__ import annotations

from typing import Any

_MESH: dict[str, Any] = {
    "dim": 2,
    "layout": "mesh",
    "encoder_width": 128,
    "rotary_scales": (32.0, 16.0, 16.0, 1.0),
    "latent_width": 128,
    "propagator_width": 256,
    "cross_scale": 32.0,
    "resolution": 200.0,
    "fourier_std": 2.0,
    "dropout": 0.1,
}

_GRID: dict[str, Any] = {
    "dim": 2,
    "encoder_width": 96,
    "rotary_scales": (32.0, 16.0, 8.0, 8.0, 1.0),
    "latent_width": 192,
    "propagator_width": 384,
}
_STEADY: dict[str, Any] = _GRID | {"task": "steady", "in_channels": 2, "out_channels": 1}

PRESETS: dict[str, dict[str, Any]] = {
    "burgers_1d": {
        "dim": 1,
        "periodic": True,
        "in_channels": 1,
        "out_channels": 1,
        "layout": "bare",
        "attention": "fourier",
        "encoder_width": 96,
        "rotary_scales": (8.0, 4.0, 4.0, 1.0),
        "latent_width": 96,
        "propagator_width": 96,
        "propagator_layers": 3,
        "heads": 8,
        "cross_scale": 1.0,
        "resolution": 1024.0,
        "fourier_std": 2.0,
    },
    "navier_stokes_2d": _GRID | {"periodic": True, "in_channels": 1, "out_channels": 1},
    "compressible_3d": {
        "dim": 3,
        "periodic": True,
        "in_channels": 5,
        "out_channels": 5,
        "encoder_width": 64,
        "rotary_scales": (32.0, 16.0, 8.0, 8.0, 1.0),
        "latent_width": 128,
        "propagator_width": 256,
    },
    "airfoil_2d": _MESH | {"in_channels": 4, "out_channels": 4, "node_types": (0, 2, 4), "coordinate_scale": 40.0},
    "cylinder_2d": _MESH
    | {"in_channels": 3, "out_channels": 3, "node_types": (0, 4, 5, 6), "norm": "affine", "coordinate_scale": 1.6},
    "steady_airfoil": _STEADY,
    "elasticity": _STEADY,
}

_SMALL_GRID: dict[str, Any] = {
    "encoder_width": 48,
    "rotary_scales": (32.0, 16.0, 1.0),
    "latent_width": 64,
    "propagator_width": 128,
}
_SMALL: dict[str, dict[str, Any]] = {
    "burgers_1d": {"encoder_width": 48, "latent_width": 48, "propagator_width": 48},
    "navier_stokes_2d": _SMALL_GRID,
    "compressible_3d": _SMALL_GRID,
    "steady_airfoil": _SMALL_GRID,
    "elasticity": _SMALL_GRID,
    "airfoil_2d": {"encoder_width": 64, "latent_width": 64, "propagator_width": 128},
    "cylinder_2d": {"encoder_width": 64, "latent_width": 64, "propagator_width": 128},
}

PRESETS |= {f"{name}_small": PRESETS[name] | changes for name, changes in _SMALL.items()}
