"""The sizes of ONO on steady problems as benchmarks have them, the same in time, and small ones."""

from __future__ import annotations

from calm_pde.models.point_features import point_presets

PRESETS = point_presets(
    wide={"width": 128, "blocks": 6, "projection": "sum"},
    small={"width": 64, "blocks": 4, "landmarks": 32, "projection": "mean"},
    elasticity={"blocks": 8},
)
