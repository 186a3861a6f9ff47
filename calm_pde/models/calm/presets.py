"""The model sizes of the paper's hyperparameter tables, by problem."""

from __future__ import annotations

from typing import Any

_GRID_2D: dict[str, Any] = {
    "dim": 2,
    "encoder": {
        "channels": (32, 64, 128),
        "num_queries": (1024, 256, 16),
        "receptive_field": (0.01, 0.01, 0.2),
        "temperature": (1.0, 1.0, 0.1),
    },
    "decoder": {
        "channels": (64, 32),
        "num_queries": (256, 1024),
        "receptive_field": (0.2, 0.01, 0.01),
        "temperature": (0.1, 1.0, 1.0),
    },
}

_MESH_2D: dict[str, Any] = {
    "dim": 2,
    "encoder": _GRID_2D["encoder"] | {"receptive_field": (0.01, 0.01, 0.5)},
    "decoder": _GRID_2D["decoder"] | {"receptive_field": (0.5, 0.01, 0.01)},
}

_STEADY_2D: dict[str, Any] = {
    "dim": 2,
    "task": "steady",
    "in_channels": 2,
    "out_channels": 1,
    "kernel_width": 64,
    "fourier_width": 64,
}

PRESETS: dict[str, dict[str, Any]] = {
    "burgers_1d": {
        "dim": 1,
        "periodic": True,
        "in_channels": 1,
        "out_channels": 1,
        "encoder": {
            "channels": (16, 32, 64),
            "num_queries": (256, 64, 8),
            "receptive_field": (0.05, 0.1, 0.5),
            "temperature": (1.0, 1.0, 1.0),
        },
        "decoder": {
            "channels": (32, 16),
            "num_queries": (64, 256),
            "receptive_field": (1.0, 0.5, 0.1),
            "temperature": (1.0, 1.0, 1.0),
        },
    },
    "navier_stokes_2d": _GRID_2D | {"periodic": True, "in_channels": 1, "out_channels": 1},
    "compressible_3d": {
        "dim": 3,
        "periodic": True,
        "in_channels": 5,
        "out_channels": 5,
        "encoder": {
            "channels": (64, 128, 256),
            "num_queries": (1024, 256, 64),
            "receptive_field": (0.001, 0.01, 0.2),
            "temperature": (1.0, 1.0, 0.1),
        },
        "decoder": {
            "channels": (128, 64),
            "num_queries": (256, 1024),
            "receptive_field": (0.2, 0.01, 0.001),
            "temperature": (0.1, 1.0, 1.0),
        },
    },
    "airfoil_2d": {
        "dim": 2,
        "in_channels": 4,
        "out_channels": 4,
        "encoder": _MESH_2D["encoder"] | {"mesh_prior": (True, False, False)},
        "decoder": _MESH_2D["decoder"] | {"mesh_prior": (False, True)},
    },
    "cylinder_2d": _MESH_2D | {"in_channels": 3, "out_channels": 3, "node_types": (0, 4, 5, 6)},
    "steady_airfoil": _STEADY_2D
    | {
        "encoder": {
            "channels": (64, 96, 128),
            "num_queries": (128, 64, 64),
            "receptive_field": (0.25, 0.5, 0.5),
            "temperature": (1.0, 1.0, 1.0),
        },
        "decoder": {
            "channels": (96, 64),
            "num_queries": (512, 2048),
            "receptive_field": (0.25, 0.01, 0.01),
            "temperature": (1.0, 1.0, 1.0),
        },
    },
    "elasticity": _STEADY_2D
    | {
        "encoder": {
            "channels": (64, 96, 128),
            "num_queries": (1024, 256, 16),
            "receptive_field": (0.02, 0.02, 0.1),
            "temperature": (1.0, 1.0, 0.1),
        },
        "decoder": {
            "channels": (96, 64),
            "num_queries": (256, 1024),
            "receptive_field": (0.25, 0.01, 0.01),
            "temperature": (0.1, 1.0, 1.0),
        },
    },
}

_ON_LATTICES: dict[str, Any] = {"spread": "even", "learnable_queries": False, "modulation": False}


def _plus(name: str, positions: str) -> dict[str, Any]:
    return PRESETS[name] | _ON_LATTICES | {"processor": {"positions": positions}}


# With relative positions alone a model commutes with all translations of its lattices. The forced flow is alike along (1, −1)
# alone, and a state need not tell where the force is.
PRESETS |= {f"{name}_plus": _plus(name, "relative") for name in ("burgers_1d", "compressible_3d")}
PRESETS |= {"navier_stokes_2d_plus": _plus("navier_stokes_2d", "both")}
