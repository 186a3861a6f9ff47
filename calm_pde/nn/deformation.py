"""The learned map from physical to computational space, in which Geo-FNO's uniform grid lives."""

from __future__ import annotations

import math

import torch
from torch import nn

from calm_pde.engine.precision import full_precision
from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


class Deformation(nn.Module):
    """ξ = x + x ⊙ δ(x), with δ an MLP of positions, angles and distance around a center, and of their sines and cosines.

    Args:
        center: where angles and the distance are measured from, in unit coordinates.
        width: of the first layer; the others have four times as many.
    """

    powers: Tensor

    def __init__(self, dim: int, width: int, center: tuple[float, ...], generator: torch.Generator | None = None) -> None:
        super().__init__()
        features, hidden = 2 * dim, 4 * width
        count = max(1, width // features)
        self.center = center
        self.register_buffer("powers", 2.0 ** torch.arange(count), persistent=False)
        self.first = linear(features, width, generator)
        self.join = linear(width + 2 * features * count, hidden, generator)
        self.hidden = nn.ModuleList(linear(hidden, hidden, generator) for _ in range(3))
        self.last = linear(hidden, dim, generator)

    def forward(self, x: Float[Tensor, "*axes dim"]) -> Float[Tensor, "*axes dim"]:
        with full_precision(x):
            features = around(x, x.new_tensor(self.center))
            phase = math.pi * (features[..., None] * self.powers).flatten(-2)
            y = self.join(torch.cat([self.first(features), phase.sin(), phase.cos()], dim=-1))
            for layer in self.hidden:
                y = torch.tanh(layer(y))
            return x + x * self.last(y)


def around(x: Float[Tensor, "*axes dim"], center: Float[Tensor, "dim"]) -> Float[Tensor, "*axes feature"]:
    """The position, its angles around the center (none in 1-D, azimuth in 2-D, azimuth and polar in 3-D), its distance."""
    radius = (x - center)[..., :1].abs()
    angles = []
    for axis in range(1, x.shape[-1]):
        across = (x - center)[..., axis : axis + 1]
        angles.append(torch.atan2(across, (x - center)[..., :1]) if axis == 1 else torch.atan2(radius, across))
        radius = torch.hypot(radius, across)
    return torch.cat([x, *angles, radius], dim=-1)
