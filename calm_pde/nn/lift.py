"""The first map of a next-frame model: what changes with time and what does not, to features."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


class Lift(nn.Module):
    """W (u ‖ c) + b for values u and what stands beside them at every point, c; `beside` is the part that no frame changes."""

    def __init__(self, in_channels: int, beside_channels: int, width: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.split = [in_channels, beside_channels]
        self.linear = linear(sum(self.split), width, generator)

    def beside(self, constant: Float[Tensor, "*sample point beside"]) -> Float[Tensor, "*sample channel point"]:
        """W_c c + b."""
        weight = self.linear.weight.split(self.split, dim=1)[1]
        return nn.functional.linear(constant, weight, self.linear.bias).mT

    def forward(
        self, values: Float[Tensor, "batch time point in"], beside: Float[Tensor, "#batch channel point"]
    ) -> Float[Tensor, "batch time channel point"]:
        """W_u u + (W_c c + b), with channels before points."""
        weight = self.linear.weight.split(self.split, dim=1)[0]
        batch, time = values.shape[:2]
        constant = beside[:, None].expand(batch, time, -1, -1).flatten(0, 1)
        rows = torch.baddbmm(constant, weight.expand(batch * time, -1, -1), values.flatten(0, 1).mT)
        return rows.unflatten(0, (batch, time))
