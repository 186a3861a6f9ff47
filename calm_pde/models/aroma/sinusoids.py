"""Fixed sines and cosines: of coordinates at frequencies from octave to octave, and of the time of a diffusion."""

from __future__ import annotations

import math

import torch

from calm_pde.engine.precision import full_precision
from calm_pde.types import Float, Tensor


def octaves(low: float, high: float, count: int) -> tuple[float, ...]:
    """π·2^e for `count` exponents e evenly spaced from `low` to `high`."""
    return tuple(math.pi * 2 ** (low + (high - low) * place / max(1, count - 1)) for place in range(count))


def place_features(points: Float[Tensor, "*axes dim"], frequencies: tuple[float, ...]) -> Float[Tensor, "*axes feature"]:
    """[sin(ω x), cos(ω x)] per frequency and axis, 2·frequencies·dim wide, of unit coordinates mapped to x ∈ [−1, 1]."""
    with full_precision(points):
        phase = ((2 * points - 1)[..., None] * points.new_tensor(frequencies)).flatten(-2)
    return torch.cat([phase.sin(), phase.cos()], dim=-1)


def time_features(times: Float[Tensor, "batch"], width: int) -> Float[Tensor, "batch feature"]:
    """[cos(t ω_i), sin(t ω_i)] with ω_i = 10⁴^(−2i/width)."""
    with full_precision(times):
        half = width // 2
        rates = torch.exp(torch.arange(half, dtype=times.dtype, device=times.device) * (-math.log(1e4) / half))
        phase = times[:, None] * rates
    return torch.cat([phase.cos(), phase.sin()], dim=-1)
