"""How LNO is trained on each problem, and what one step of it is in the comparison of speed."""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(
    train={
        "feeding": "truth",
        "learning_rate": 1e-3,
        "weight_decay": 5e-05,
        "betas": [0.9, 0.99],
        "schedule": "one_cycle",
        "rise": 0.2,
        "rise_from": 1e4,
    },
    problems={
        "burgers_1d": {"batch_size": 64, "epochs": 500},
        "navier_stokes_2d": {"batch_size": 32, "epochs": 250},
        "compressible_3d": {"batch_size": 2, "epochs": 250},
        "airfoil_2d": {"batch_size": 8, "epochs": 500},
        "cylinder_2d": {"batch_size": 8, "epochs": 500},
        "steady_airfoil": {"batch_size": 4, "epochs": 500, "feeding": "rollout", "relative_to": "physical"},
        "elasticity": {"batch_size": 4, "epochs": 500, "feeding": "rollout"},
    },
    timed=(Timed("fed true frames", train={"feeding": "truth"}),),
    paper_step=(1196.57, 61191.0),
)
