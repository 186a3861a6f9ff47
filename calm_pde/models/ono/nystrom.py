"""Nyström's attention: all points through a few landmarks, which are means over stretches of their walk."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from torch import nn
from torch.nn.functional import conv2d

from calm_pde.engine.precision import full_precision
from calm_pde.nn.linear_transformer.attention import real, together
from calm_pde.nn.matrices import Matrices
from calm_pde.nn.pointwise import small_linear
from calm_pde.types import Bool, Float, Tensor

_TAPS = 33
_ITERATIONS = 6


class Stretches(NamedTuple):
    """The walk in stretches of nearly equal length, one for each landmark.

    Args:
        mask: which points are real, the first of each row.
        means: what a landmark is of the points of its stretch.
        used: the landmarks that have a stretch; None where all do.
    """

    mask: Bool[Tensor, "row point"] | None
    means: Float[Tensor, "#row landmark point"]
    used: Bool[Tensor, "row landmark"] | None


def stretches(points: int, mask: Bool[Tensor, "row point"] | None, landmarks: int, like: Tensor) -> Stretches:
    """So many as there are landmarks, or real points where these are fewer: point n of N belongs to ⌊n·m/N⌋ of m."""
    place = torch.arange(points, device=like.device)[None]
    count = mask.sum(dim=1, keepdim=True) if mask is not None else torch.tensor([[points]], device=like.device)
    stretch = place * count.clamp(max=landmarks) // count
    names = torch.arange(min(landmarks, points), device=like.device)
    belongs = (stretch[:, None] == names[:, None]) & (place < count)[:, None]
    size = belongs.sum(dim=-1, keepdim=True)
    means = belongs.to(like.dtype) / size.clamp(min=1)
    return Stretches(mask, means, None if mask is None else size.squeeze(-1) > 0)


class NystromAttention(nn.Module):
    """W (softmax(q k̃ᵀ) A⁺ softmax(q̃ kᵀ) v + c ∗ v) + b per head, with landmarks q̃, k̃, A = softmax(q̃ k̃ᵀ), and c ∗ v a
    convolution along the walk by the head's own 33 numbers.

    A⁺ comes from A by six iterations of Razavi's. Keys and queries are scaled by the head's width as usual.
    """

    declared_matrices: ClassVar[dict[str, Matrices]] = {"to_qkv.weight": Matrices(parts=3)}

    def __init__(self, width: int, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.to_qkv = small_linear(width, 3 * width, generator, bias=False)
        bound = 1 / math.sqrt(_TAPS)
        self.taps = nn.Parameter(torch.empty(heads, 1, _TAPS, 1).uniform_(-bound, bound, generator=generator))
        self.to_out = small_linear(width, width, generator)

    def forward(self, x: Float[Tensor, "row point channel"], place: Stretches) -> Float[Tensor, "row point channel"]:
        query, key, value = self.to_qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, value = query / math.sqrt(query.shape[-1]), real(value, place.mask)
        means = place.means.to(query.dtype)[:, None]
        queries, keys = means @ query, means @ key
        near = _softmax(query @ keys.mT, place.used)
        core = _softmax(queries @ keys.mT, place.used)
        if place.used is not None:
            core = core.masked_fill(~place.used[:, None, :, None], 0.0)
        found = near @ (pseudoinverse(core).to(near.dtype) @ (_softmax(queries @ key.mT, place.mask) @ value))
        return self.to_out(together(found + conv2d(value, self.taps, padding=(_TAPS // 2, 0), groups=self.heads)))


def pseudoinverse(a: Float[Tensor, "*axes row column"]) -> Float[Tensor, "*axes column row"]:
    """Z ← ¼ Z (13 − A Z (15 − A Z (7 − A Z))) six times from Aᵀ/(‖A‖₁ ‖A‖_∞), each matrix by its own norms."""
    with full_precision(a):
        a = a.to(torch.promote_types(a.dtype, torch.float32))
        z = a.mT / (a.abs().sum(dim=-1).amax(dim=-1) * a.abs().sum(dim=-2).amax(dim=-1))[..., None, None]
        one = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        for _ in range(_ITERATIONS):
            az = a @ z
            z = z @ (13 * one - az @ (15 * one - az @ (7 * one - az))) / 4
        return z


def _softmax(
    logits: Float[Tensor, "row head query key"], seen: Bool[Tensor, "row key"] | None
) -> Float[Tensor, "row head query key"]:
    return (logits if seen is None else logits.masked_fill(~seen[:, None, None], -math.inf)).softmax(dim=-1)
