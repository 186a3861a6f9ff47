"""AROMA's sizes for the paper's problems, and small twins of them."""

from __future__ import annotations

from typing import Any

from calm_pde.config import merged

_MESH: dict[str, Any] = {
    "num_tokens": 64,
    "latent_channels": 16,
    "geometry": True,
    "loss": "mean_square",
    "dropped": (0.0, 0.25, 0.5, 0.75),
}

_PUBLISHED: dict[str, dict[str, Any]] = {
    "burgers_1d": {
        "dim": 1,
        "periodic": True,
        "in_channels": 1,
        "out_channels": 1,
        "autoencoder": {"num_tokens": 32, "latent_channels": 8, "divergence_weight": 0.0},
        "dynamics": {"minimum_noise": 1e-2, "residual": 41.0},
    },
    "navier_stokes_2d": {
        "dim": 2,
        "periodic": True,
        "in_channels": 1,
        "out_channels": 1,
        "autoencoder": {"num_tokens": 256, "latent_channels": 16},
        "dynamics": {"minimum_noise": 1e-3},
    },
    "compressible_3d": {
        "dim": 3,
        "periodic": True,
        "in_channels": 5,
        "out_channels": 5,
        "autoencoder": {"num_tokens": 256, "latent_channels": 16},
        "dynamics": {"minimum_noise": 1e-3},
    },
    "airfoil_2d": {
        "dim": 2,
        "in_channels": 4,
        "out_channels": 4,
        "autoencoder": _MESH | {"highest_octave": 5.0},
        "dynamics": {"minimum_noise": 1e-6},
    },
    "cylinder_2d": {
        "dim": 2,
        "in_channels": 3,
        "out_channels": 3,
        "autoencoder": _MESH,
        "dynamics": {"minimum_noise": 1e-3},
    },
}

_SMALL_TOKENS = {"burgers_1d": 16, "navier_stokes_2d": 64, "compressible_3d": 64, "airfoil_2d": 32, "cylinder_2d": 32}


def _small(name: str) -> dict[str, Any]:
    smaller = {
        "autoencoder": {"num_tokens": _SMALL_TOKENS[name], "width": 64, "depth": 2, "field_width": 64},
        "dynamics": {"width": 64, "blocks": 3},
    }
    return merged(_PUBLISHED[name], smaller)


PRESETS: dict[str, dict[str, Any]] = _PUBLISHED | {f"{name}_small": _small(name) for name in _PUBLISHED}
