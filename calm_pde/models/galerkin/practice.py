"""How the Galerkin Transformer is trained on each problem, and what one step of it is in the comparison of speed.

Steady: the benchmarks' settings, with losses of physical fields. In time it is trained like FNO.
"""

from __future__ import annotations

from typing import Any

from calm_pde.models.practice import Practice, Timed

_STEADY: dict[str, Any] = {"weight_decay": 1e-5, "relative_to": "physical"}
_IN_TIME: dict[str, Any] = {"feeding": "prefix"}

PRACTICE = Practice(
    train={"learning_rate": 1e-3, "epochs": 500},
    problems={
        "steady_airfoil": _STEADY | {"batch_size": 4, "schedule": "one_cycle"},
        "elasticity": _STEADY | {"batch_size": 1, "schedule": "cosine"},
        "navier_stokes_2d": _IN_TIME | {"batch_size": 64},
        "airfoil_2d": _IN_TIME | {"batch_size": 8},
        "cylinder_2d": _IN_TIME | {"batch_size": 8},
    },
    timed=(Timed("fed by itself"),),
)
