"""What joins the answer at the decoder's end, as the latent state lets it: detail of the given state, and the query's place."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.models.calm.layer import CalmLayer
from calm_pde.models.calm.place import Place
from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


class DetailPath(nn.Module):
    """u(x, t) = v(x, t) + W σ(f(x, t) + s(x) + g(x)), s(x) = Σ_{m ∈ RF(x)} k(x − α_m) u(α_m, 0).

    v and f are what the decoder's last layer says at x of the latent state at t, s is a continuous convolution of the given
    state, which so passes by the bottleneck, and g tells x its place, see `Place`; either may be missing. W starts at zero: a
    fresh model answers v alone.
    """

    def __init__(
        self, read: CalmLayer | None, place: Place | None, channels: int, out_channels: int, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.read, self.place = read, place
        self.write = linear(channels, out_channels, generator, bias=False)
        nn.init.zeros_(self.write.weight)

    @property
    def bounded(self) -> bool:
        """Whether it looks for the boundary among the given points."""
        return self.place is not None and self.place.bounded

    def joined(
        self, decoded: Float[Tensor, "batch time query both"], *seen: Float[Tensor, "_ #time query detail"] | None
    ) -> Float[Tensor, "batch time query out"]:
        """u of v and f, which stand one behind the other in `decoded`, and of s and g, as far as they are there; of one
        state for all frames, or of one for each."""
        plain, told = decoded.split([self.write.out_features, self.write.in_features], dim=-1)
        for term in seen:
            told = told if term is None else told + term
        return plain + self.write(nn.functional.gelu(told))
