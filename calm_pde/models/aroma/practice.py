"""How AROMA is trained on each problem, and what one step of it is in the comparison of speed.

Batches are of frames, as published for the autoencoder, and the same for the dynamics. On grids an epoch shows every frame,
on meshes one of each trajectory. Epochs are those of both stages, which `stages` splits.
"""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(
    train={"learning_rate": 1e-3, "lowest_rate": 1e-05, "weight_decay": 0},
    problems={
        "burgers_1d": {
            "batch_size": 128,
            "epochs": 2500,
            "stages": [1500, 1000],
            "windows_per_trajectory": 41,
            "weight_decay": 0.01,
        },
        "navier_stokes_2d": {"batch_size": 10, "epochs": 2000, "stages": [1000, 1000], "windows_per_trajectory": 20},
        "compressible_3d": {"batch_size": 4, "epochs": 1500, "stages": [500, 1000], "windows_per_trajectory": 21},
        "airfoil_2d": {"batch_size": 32, "epochs": 6000, "stages": [5000, 1000]},
        "cylinder_2d": {"batch_size": 64, "epochs": 11000, "stages": [10000, 1000]},
    },
    timed=(
        Timed("autoencoder, all frames, an eighth at a time", ", autoencoder", train={"accumulate": 8}),
        Timed("dynamics, a step per transition", ", dynamics", stage=1, per_transition=True, train={}, answers=False),
    ),
)
