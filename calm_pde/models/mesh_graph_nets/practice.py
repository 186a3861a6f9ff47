"""How MeshGraphNets is trained on each problem, and what one step of it is in the comparison of speed."""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(
    train={
        "feeding": "truth",
        "window": 2,
        "error": "difference",
        "input_noise": 0.02,
        "batch_size": 2,
        "learning_rate": 1e-4,
        "schedule": "exponential",
        "lowest_rate": 1e-6,
        "weight_decay": 0.0,
        "iterations": 10_000_000,
    },
    problems={name: {} for name in ("cylinder_2d", "airfoil_2d", "burgers_1d", "navier_stokes_2d", "compressible_3d")},
    timed=(
        Timed(
            "fed true frames, scattered points",
            preset="airfoil_2d",
            train={"feeding": "truth", "error": "difference", "frames_at_once": 1},
            scattered=True,
        ),
    ),
)
