"""CALM-PDE is trained as the shipped recipes say; what one step of it is in the comparison of speed."""

from __future__ import annotations

from calm_pde.models.practice import Practice, Timed

PRACTICE = Practice(by_recipe=True, timed=(Timed("latent rollout"),), paper_step=(138.25, 14147.0))
