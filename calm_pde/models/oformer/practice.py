"""How OFormer is trained on each problem, and what one step of it is in the comparison of speed.

Windows of 10 steps (8 on the meshes), the first frame beside them, grow to the whole trajectory early in training.
"""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(
    train={
        "growth": "linear",
        "growth_share": 0.16,
        "first_length": 11,
        "random_starts": False,
        "schedule": "one_cycle",
        "rise": 0.3,
        "rise_from": 1e4,
        "gradient_clip": 2.0,
    },
    problems={
        "burgers_1d": {"batch_size": 64, "learning_rate": 0.0008, "rise": 0.2, "gradient_clip": None, "iterations": 128000},
        "navier_stokes_2d": {"batch_size": 16, "learning_rate": 0.0005, "iterations": 128000},
        "compressible_3d": {"batch_size": 2, "learning_rate": 0.0005, "iterations": 22000},
        "airfoil_2d": {"batch_size": 8, "learning_rate": 0.0006, "growth_share": 0.2, "first_length": 9, "iterations": 48000},
        "cylinder_2d": {"batch_size": 8, "learning_rate": 0.0006, "growth_share": 0.2, "first_length": 9, "iterations": 48000},
        "steady_airfoil": {"batch_size": 8, "learning_rate": 0.0006, "epochs": 500, "relative_to": "physical"},
        "elasticity": {"batch_size": 8, "learning_rate": 0.0006, "epochs": 500, "relative_to": "physical"},
    },
    timed=(Timed("latent rollout"),),
    paper_step=(786.36, 43807.0),
)
