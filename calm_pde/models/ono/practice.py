"""How ONO is trained on each problem, and what one step of it is in the comparison of speed.

Steady: the published settings, with losses of physical fields. Gradients are clipped as those of the mean over a batch, where
the published number is for the sum. In time it is trained like FNO.
"""

from __future__ import annotations

from typing import Any

from calm_pde.models.practice import Practice, Timed

_STEADY: dict[str, Any] = {"weight_decay": 1e-5, "relative_to": "physical", "schedule": "one_cycle"}
_IN_TIME: dict[str, Any] = {"feeding": "prefix"}

PRACTICE = Practice(
    train={"learning_rate": 1e-3, "epochs": 500},
    problems={
        "steady_airfoil": _STEADY | {"batch_size": 4, "gradient_clip": 0.025},
        "elasticity": _STEADY | {"batch_size": 8, "gradient_clip": 0.0125},
        "navier_stokes_2d": _IN_TIME | {"batch_size": 64},
        "airfoil_2d": _IN_TIME | {"batch_size": 8},
        "cylinder_2d": _IN_TIME | {"batch_size": 8},
    },
    timed=(Timed("fed by itself"),),
)
