"""The detail path: what the given state looks like around a query passes by the bottleneck, as the latent state lets it."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.models.calm.layer import CalmLayer
from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


class DetailPath(nn.Module):
    """u(x, t) = v(x, t) + W σ(f(x, t) + s(x)), s(x) = Σ_{m ∈ RF(x)} k(x − α_m) u(α_m, 0).

    v and f are what the decoder's last layer says at x of the latent state at t, s is a continuous convolution of the given
    state. W starts at zero: a fresh model answers v alone.
    """

    def __init__(self, read: CalmLayer, out_channels: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.read = read
        self.write = linear(read.out_channels, out_channels, generator, bias=False)
        nn.init.zeros_(self.write.weight)

    def joined(
        self, decoded: Float[Tensor, "batch time query both"], seen: Float[Tensor, "batch #time query detail"]
    ) -> Float[Tensor, "batch time query out"]:
        """u of v and f, which stand one behind the other in `decoded`, and s."""
        plain, told = decoded.split([self.write.out_features, self.write.in_features], dim=-1)
        return plain + self.write(nn.functional.gelu(told + seen))
