"""The relative error of gradients in the loss: the H¹ seminorm of the error over that of the truth, on any points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from calm_pde.metrics.relative_l2 import SMALLEST, mean_error, without_masked
from calm_pde.types import Bool, Float, Int, Tensor

_AT_ONCE = 1 << 17  # numbers that are compared together, so that they stay in the cache


class Pairs(NamedTuple):
    """The pairs (i, j) of a mesh that stand for its gradient: |u|² = Σ (u_i − u_j)²/|x_i − x_j|².

    Each pair stands at both of its points, with the weight W_ij = W_ji of what it counts in the sum; weight 0 is no pair.
    """

    indices: Int[Tensor, "point neighbor"]
    weights: Float[Tensor, "point neighbor"]


def relative_h1_loss(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    meshes: Sequence[Pairs],
    mask: Bool[Tensor, "batch point"] | None = None,
    spacetime: bool = False,
    weights: Float[Tensor, "channel"] | None = None,
) -> Float[Tensor, "batch"]:
    """√(|û − u|²/max(|u|², 1e-5)) of normalized fields per frame, or over space and time, and then the mean.

    `meshes` are the pairs of each sample, or of the one mesh that all share; `weights` are those of channels, 1 in the mean.
    """
    wrong, target = without_masked(prediction - target, mask), without_masked(target, mask)
    error, size = (squared_seminorms(values, meshes) for values in (wrong, target))
    if spacetime:
        error, size = error.sum(dim=1), size.sum(dim=1)
    ratio = error / size.clamp(min=SMALLEST)
    flat = torch.finfo(ratio.dtype).tiny  # a constant error has no gradient, where the root would have an infinite slope
    return mean_error(ratio.clamp(min=flat).sqrt(), weights)


def squared_seminorms(
    values: Float[Tensor, "batch time point channel"], meshes: Sequence[Pairs]
) -> Float[Tensor, "batch time channel"]:
    """|u|² of each sample, frame and channel."""
    shared = len(meshes) == 1
    parts = values.split(max(1, _AT_ONCE // max(1, values[0].numel())) if shared else 1)
    found = []
    for part, pairs in zip(parts, [*meshes] * len(parts) if shared else meshes, strict=True):
        rows = part.movedim(2, 0).contiguous()  # a point's numbers side by side, so that neighbors are read in one piece
        found.append(_SquaredSeminorm.apply(rows.flatten(1), *pairs).unflatten(0, rows.shape[1:]))
    return torch.cat(found)


class _SquaredSeminorm(torch.autograd.Function):
    """½ Σ_ij W_ij (u_i − u_j)² of each column of u (point, column).

    By hand, since its derivative 2 Σ_j W_ij (u_i − u_j) reads neighbors as well: nothing is added up at a place that several
    threads share, and of what was read nothing is kept.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, indices: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(rows, indices, weights)
        total = rows.new_zeros(rows.shape[1])
        for difference, weight in _differences(rows, indices, weights):
            total += weight @ difference.square()
        return total / 2

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        rows, indices, weights = ctx.saved_tensors
        total = torch.zeros_like(rows)
        for difference, weight in _differences(rows, indices, weights):
            total = total + weight[:, None] * difference
        return 2 * gradients[0] * total, None, None


def _differences(rows: Tensor, indices: Tensor, weights: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """u_i − u_j and W_ij of all points i and one neighbor j of each after the other."""
    for index, weight in zip(indices.unbind(dim=1), weights.to(rows.dtype).unbind(dim=1), strict=True):
        yield rows - rows.index_select(0, index), weight
