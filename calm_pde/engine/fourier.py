"""Fourier features of coordinates and displacements, in full precision."""

from __future__ import annotations

import math

import torch

from calm_pde.engine.precision import full_precision
from calm_pde.types import Float, Tensor


def fourier_features(d: Float[Tensor, "*axes dim"], frequencies: Float[Tensor, "dim half"]) -> Float[Tensor, "*axes feature"]:
    with full_precision(d):
        phase = d @ (2 * math.pi * frequencies)
    return torch.cat([phase.sin(), phase.cos()], dim=-1)
