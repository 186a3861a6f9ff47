"""Sines and cosines of positions at fixed frequencies, as transformers are told places."""

from __future__ import annotations

import torch

from calm_pde.engine.precision import full_precision
from calm_pde.types import Float, Tensor


def sinusoids(positions: Float[Tensor, "*axes dim"], width: int, reach: float) -> Float[Tensor, "*axes feature"]:
    """[sin(ω p), cos(ω p)] of each axis, p = reach·x, ω_i = 10000^(−2i/d) for i < d/2.

    d is the largest even number of channels that every axis can have; those that are left over are zero. Angles are computed
    in float64 whatever the type of the positions.
    """
    half = width // (2 * positions.shape[-1])
    with full_precision(positions):
        powers = torch.arange(half, dtype=torch.float64, device=positions.device) / max(half, 1)
        angles = (reach * positions.double())[..., None] * 10_000.0**-powers
        known = torch.cat([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(positions.dtype)
    return torch.nn.functional.pad(known, (0, width - known.shape[-1]))
