"""How PIT is trained on each problem, and what one step of it is in the comparison of speed."""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(
    train={"feeding": "prefix", "epochs": 500, "weight_decay": 0},
    problems={
        "burgers_1d": {"batch_size": 64, "learning_rate": 0.0006},
        "navier_stokes_2d": {"batch_size": 20, "learning_rate": 1e-3},
        "compressible_3d": {"batch_size": 1, "learning_rate": 0.0005},
        "airfoil_2d": {"batch_size": 16, "learning_rate": 0.0006},
        "cylinder_2d": {"batch_size": 16, "learning_rate": 0.0006},
    },
    timed=(Timed("fed by itself"),),
    paper_step=(124.23, 16968.0),
)
