"""How MeshGraphNets is trained on each problem, and what one step of it is in the comparison of speed."""

from __future__ import annotations

from calm_pde.models.practice import Practice

PRACTICE = Practice()
