"""The block that all of UPT is made of: attention and an MLP, scaled, shifted and gated by what the model is told."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import PointwiseMLP, linear, silent
from calm_pde.types import Bool, Float, Tensor

HELD = 24
"""Numbers that a block holds of each token for its backward, as multiples of the width."""


class Block(nn.Module):
    """x + (1 + g₁)·Attn((1 + s₁)·LN(x) + b₁), then x + (1 + g₂)·MLP((1 + s₂)·LN(x) + b₂), the MLP four times as wide inside.

    Keys and values are of the tokens themselves, or of a context through a norm of its own (a Perceiver's block).
    (g, s, b) = W·SiLU(c) of what is told, c, where there is something; W starts at zero, so that it changes nothing at first.

    Args:
        told: the width of c.
        dropped: the share of samples of which either half is left out in training (stochastic depth).
        context: the width of the context; None for attention among the tokens.
    """

    declared_matrices: ClassVar[dict[str, Matrices]] = {"to_key_value.weight": Matrices(parts=2)}

    def __init__(
        self,
        width: int,
        heads: int,
        generator: torch.Generator | None,
        *,
        told: int = 0,
        dropped: float = 0.0,
        context: int | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.dropped = heads, dropped
        self.norm = nn.LayerNorm(width)
        self.norm_context = None if context is None else nn.LayerNorm(context)
        self.to_query = linear(width, width, generator)
        self.to_key_value = linear(context or width, 2 * width, generator)
        self.to_out = linear(width, width, generator)
        self.norm_mlp = nn.LayerNorm(width)
        self.mlp = PointwiseMLP(width, 4 * width, generator)
        self.modulation = silent(told, 6 * width) if told else None

    def forward(
        self,
        x: Float[Tensor, "row token channel"],
        c: Float[Tensor, "row told"] | None = None,
        context: Float[Tensor, "row _ _"] | None = None,
        mask: Bool[Tensor, "row _"] | None = None,
    ) -> Float[Tensor, "row token channel"]:
        """Keys where the mask is False are not seen."""
        changes = None if self.modulation is None or c is None else self.modulation(silu(c))[:, None].unflatten(-1, (2, 3, -1))
        seen = _shifted(self.norm(x), changes, 0)
        keys = seen if self.norm_context is None or context is None else self.norm_context(context)
        x = x + self._kept(_gated(self._attended(seen, keys, mask), changes, 0))
        return x + self._kept(_gated(self.mlp(_shifted(self.norm_mlp(x), changes, 1)), changes, 1))

    def _attended(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        query = self.to_query(queries).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        key, value = self.to_key_value(keys).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        found = scaled_dot_product_attention(query, key, value, None if mask is None else mask[:, None, None])
        return self.to_out(found.transpose(1, 2).flatten(2))

    def _kept(self, change: Float[Tensor, "row token channel"]) -> Float[Tensor, "row token channel"]:
        if not self.dropped or not self.training:
            return change
        keep = torch.rand(len(change), 1, 1, dtype=change.dtype, device=change.device) >= self.dropped
        return change * keep / (1 - self.dropped)


def _shifted(x: Tensor, changes: Tensor | None, half: int) -> Tensor:
    return x if changes is None else (1 + changes[:, :, half, 1]) * x + changes[:, :, half, 2]


def _gated(x: Tensor, changes: Tensor | None, half: int) -> Tensor:
    return x if changes is None else (1 + changes[:, :, half, 0]) * x


class Told(nn.Module):
    """c = W₂ SiLU(W₁ k + b₁) + b₂ of all that a step is told, k = θ ‖ c(t) ‖ c(t′)."""

    def __init__(self, numbers: int, width: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.expand = linear(numbers, width, generator)
        self.join = linear(width, width, generator)

    def forward(self, known: Float[Tensor, "row condition"]) -> Float[Tensor, "row told"]:
        return self.join(silu(self.expand(known)))
