"""How GNOT is trained on each problem, and what one step of it is in the comparison of speed.

Steady: the settings of the published code, with losses of physical fields. In time it is trained like FNO.
"""

from __future__ import annotations

from typing import Any

from calm_pde.models.practice import Practice, Timed

_STEADY: dict[str, Any] = {
    "weight_decay": 5e-6,
    "relative_to": "physical",
    "schedule": "one_cycle",
    "rise": 0.2,
    "rise_from": 1e4,
}
_IN_TIME: dict[str, Any] = {"feeding": "prefix"}

PRACTICE = Practice(
    train={"learning_rate": 1e-3, "epochs": 500},
    problems={
        "steady_airfoil": _STEADY | {"batch_size": 4},
        "elasticity": _STEADY | {"batch_size": 4},
        "navier_stokes_2d": _IN_TIME | {"batch_size": 64},
        "airfoil_2d": _IN_TIME | {"batch_size": 8},
        "cylinder_2d": _IN_TIME | {"batch_size": 8},
    },
    timed=(Timed("fed by itself"),),
)
