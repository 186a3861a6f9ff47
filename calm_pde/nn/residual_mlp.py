"""An MLP whose hidden layers add to what they are given."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import gelu

from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


class ResidualMLP(nn.Module):
    """W₂ r with r = GELU(W₁ x), then r ← r + GELU(W r) in each of `layers` layers."""

    def __init__(self, in_features: int, width: int, out_features: int, layers: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.first = linear(in_features, width, generator)
        self.hidden = nn.ModuleList(linear(width, width, generator) for _ in range(layers))
        self.last = linear(width, out_features, generator)

    def forward(self, x: Float[Tensor, "*axes in"]) -> Float[Tensor, "*axes out"]:
        r = gelu(self.first(x))
        for layer in self.hidden:
            r = r + gelu(layer(r))
        return self.last(r)

    @property
    def held(self) -> int:
        """Numbers that one point's pass holds for its backward."""
        return self.first.in_features + (2 + 2 * len(self.hidden)) * self.first.out_features + self.last.out_features
