"""The sizes of PIT in the paper's hyperparameter table, by problem, and small ones."""

from __future__ import annotations

from typing import Any

_GRID_2D: dict[str, Any] = {
    "dim": 2,
    "width": 256,
    "heads": 2,
    "latent_mesh": (16, 16),
    "encoder_quantile": 0.02,
    "decoder_quantile": 0.02,
}

PRESETS: dict[str, dict[str, Any]] = {
    "burgers_1d": {
        "dim": 1,
        "periodic": True,
        "in_channels": 1,
        "out_channels": 1,
        "width": 64,
        "heads": 2,
        "latent_mesh": (1024,),
        "encoder_quantile": 0.01,
        "decoder_quantile": 0.08,
    },
    "navier_stokes_2d": _GRID_2D | {"periodic": True, "in_channels": 1, "out_channels": 1, "normalize_latent": True},
    "compressible_3d": {
        "dim": 3,
        "periodic": True,
        "in_channels": 5,
        "out_channels": 5,
        "width": 256,
        "heads": 1,
        "latent_mesh": (8, 8, 8),
        "encoder_quantile": 0.002,
        "decoder_quantile": 0.01,
    },
    "airfoil_2d": _GRID_2D
    | {"in_channels": 4, "out_channels": 4, "latent_mesh": (256,), "mesh_prior": True, "coordinates": False},
    "cylinder_2d": _GRID_2D
    | {"in_channels": 3, "out_channels": 3, "node_types": (0, 4, 5, 6), "coordinates": False, "residual": True},
}

_SMALL: dict[str, dict[str, Any]] = {
    "burgers_1d": {"width": 48, "latent_mesh": (256,)},
    "navier_stokes_2d": {"width": 96},
    "compressible_3d": {"width": 128},
    "airfoil_2d": {"width": 96},
    "cylinder_2d": {"width": 96},
}

PRESETS |= {f"{name}_small": PRESETS[name] | changes for name, changes in _SMALL.items()}
