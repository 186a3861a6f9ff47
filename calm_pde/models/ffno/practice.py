"""How F-FNO is trained on each problem, and what one step of it is in the comparison of speed.

Optimizer and schedule are not stated anywhere; it gets CALM-PDE's.
"""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(
    train={"feeding": "prefix", "learning_rate": 1e-3, "epochs": 500},
    problems={
        "burgers_1d": {"batch_size": 32},
        "navier_stokes_2d": {"batch_size": 64},
        "compressible_3d": {"batch_size": 2},
        "airfoil_2d": {"batch_size": 8},
        "cylinder_2d": {"batch_size": 8},
        "steady_airfoil": {"batch_size": 20, "feeding": "rollout", "relative_to": "physical"},
        "elasticity": {"batch_size": 20, "feeding": "rollout", "relative_to": "physical"},
    },
    timed=(
        Timed("fed by itself"),
        Timed("fed by itself, scattered points", " on points", preset="airfoil_2d", scattered=True),
    ),
)
