"""The sizes of GNOT on steady problems as benchmarks have them, the same in time, and small ones."""

from __future__ import annotations

from calm_pde.models.point_features import point_presets

PRESETS = point_presets(
    wide={"width": 128, "blocks": 8},
    small={"width": 48, "blocks": 3, "experts": 2, "layers": 2},
    elasticity={"expansion": 2},
)
