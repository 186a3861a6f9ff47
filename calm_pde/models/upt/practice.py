"""How UPT is trained on each problem, and what one step of it is in the comparison of speed."""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(
    train={
        "growth": "linear",
        "growth_share": 0.5,
        "first_length": 2,
        "learning_rate": 5e-4,
        "weight_decay": 0.05,
        "warm_up": 0.05,
        "gradient_clip": 1.0,
    },
    problems={
        "burgers_1d": {"batch_size": 64, "epochs": 500},
        "navier_stokes_2d": {"batch_size": 32, "epochs": 250},
        "compressible_3d": {"batch_size": 2, "epochs": 250},
        "airfoil_2d": {"batch_size": 8, "epochs": 500},
        "cylinder_2d": {"batch_size": 8, "epochs": 500},
        "steady_airfoil": {"batch_size": 8, "epochs": 1000, "schedule": "one_cycle", "weight_decay": 1e-5},
        "elasticity": {"batch_size": 1, "epochs": 1000, "schedule": "one_cycle", "weight_decay": 1e-5},
    },
    timed=(Timed("latent rollout"),),
)
