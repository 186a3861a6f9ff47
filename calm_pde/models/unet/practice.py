"""How the U-Net is trained on each problem, which is as FNO is, and what one step of it is in the comparison of speed."""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(
    train={"feeding": "prefix", "learning_rate": 1e-3, "epochs": 500},
    problems={
        "burgers_1d": {"batch_size": 32},
        "navier_stokes_2d": {"batch_size": 64},
        "compressible_3d": {"batch_size": 2},
    },
    timed=(Timed("fed by itself"),),
)
