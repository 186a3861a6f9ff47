"""The transformer of a diffusion: blocks that time shifts, scales and gates, each of which starts as the identity."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, scaled_dot_product_attention, silu

from calm_pde.models.aroma.sinusoids import time_features
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import silent
from calm_pde.types import Float, Tensor

_TIME_WIDTH = 256
_SMALL = 1e-6  # in the norms


class ModulatedBlock(nn.Module):
    """x + g₁·Attn(LN(x)(1 + s₁) + b₁), then x + g₂·MLP(LN(x)(1 + s₂) + b₂); b, s and g come from time, and start at 0."""

    declared_matrices: ClassVar[dict[str, Matrices]] = {"to_qkv.weight": Matrices(parts=3)}

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = _even(width, 3 * width, generator)
        self.to_out = _even(width, width, generator)
        self.expand = _even(width, 4 * width, generator)
        self.reduce = _even(4 * width, width, generator)
        self.modulation = silent(width, 6 * width)

    def forward(
        self, x: Float[Tensor, "batch token channel"], time: Float[Tensor, "batch channel"]
    ) -> Float[Tensor, "batch token channel"]:
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = self.modulation(silu(time))[:, None].chunk(6, dim=-1)
        x = x + gate * self._attention(_modulated(x, shift, scale))
        hidden = gelu(self.expand(_modulated(x, shift_mlp, scale_mlp)), approximate="tanh")
        return x + gate_mlp * self.reduce(hidden)

    def _attention(self, x: Tensor) -> Tensor:
        query, key, value = self.to_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.to_out(scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2))


class DiffusionTransformer(nn.Module):
    """What is to be said of noised tokens at a time, beside the clean tokens that they follow.

    Args:
        tokens: of each of the two, which stand one after the other.
        told: numbers that are told of the step from one frame to the next; they join its time, without a word at the start.
    """

    def __init__(
        self,
        channels: int,
        tokens: int,
        *,
        width: int,
        heads: int,
        blocks: int,
        told: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.to_in = _even(channels, width, generator)
        self.place = nn.Parameter(torch.zeros(2 * tokens, width))
        self.time_in, self.time_out = (_normal(size, width, generator) for size in (_TIME_WIDTH, width))
        self.blocks = nn.ModuleList(ModulatedBlock(width, heads, generator) for _ in range(blocks))
        self.modulation = silent(width, 2 * width)
        self.to_out = silent(width, channels)
        self.told = silent(told, width) if told else None

    def forward(
        self,
        condition: Float[Tensor, "batch token channel"],
        noised: Float[Tensor, "batch token channel"],
        times: Float[Tensor, "batch"],
        told: Float[Tensor, "batch condition"] | None = None,
    ) -> Float[Tensor, "batch token channel"]:
        time = self.time_out(silu(self.time_in(time_features(times, _TIME_WIDTH))))
        if self.told is not None and told is not None:
            time = time + self.told(told)
        x = self.to_in(torch.cat([condition, noised], dim=1)) + self.place
        for block in self.blocks:
            x = block(x, time)
        shift, scale = self.modulation(silu(time))[:, None].chunk(2, dim=-1)
        return self.to_out(_modulated(x[:, condition.shape[1] :], shift, scale))


def _modulated(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return layer_norm(x, x.shape[-1:], eps=_SMALL) * (1 + scale) + shift


def _even(in_features: int, out_features: int, generator: torch.Generator | None) -> nn.Linear:
    """Weights that keep the variance both ways (Glorot), no bias at the start."""
    layer = silent(in_features, out_features)
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    return layer


def _normal(in_features: int, out_features: int, generator: torch.Generator | None) -> nn.Linear:
    layer = silent(in_features, out_features)
    nn.init.normal_(layer.weight, std=0.02, generator=generator)
    return layer
