"""How GAOT is trained on each problem, and what one step of it is in the comparison of speed."""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(
    train={
        "lead_times": "all",
        "growth": "linear",
        "growth_share": 0.5,
        "first_length": 2,
        "learning_rate": 8e-4,
        "weight_decay": 1e-5,
        "gradient_clip": 1.0,
    },
    problems={
        "burgers_1d": {"batch_size": 64, "epochs": 500},
        "navier_stokes_2d": {"batch_size": 32, "epochs": 500},
        "compressible_3d": {"batch_size": 2, "epochs": 500},
        "airfoil_2d": {"batch_size": 8, "epochs": 500},
        "cylinder_2d": {"batch_size": 8, "epochs": 500},
    },
    timed=(Timed("all lead times from the first frame"),),
)
"""Published: batches of 64 pairs. Ours are all pairs of a few frames of each trajectory."""
