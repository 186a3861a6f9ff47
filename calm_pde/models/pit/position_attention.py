"""Attention whose weights depend on positions alone: near keys count more (position attention)."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import embedding_bag

from calm_pde.engine.precision import full_precision
from calm_pde.engine.receptive_fields import equally_wide, receptive_field
from calm_pde.geometry import squared_distances, wrap
from calm_pde.types import Bool, Float, Int, Tensor

SHARPEST = 1e4
"""The largest scale of squared unit distances; beyond it the tangent's slope would reach 10⁹ for nothing to be gained."""


class Near(NamedTuple):
    """The keys that each query attends to, and how far they are; `indices` None: every key, in its own place.

    Features that are `gathered` take more memory, and their sum has derivatives of any order.
    """

    squared: Float[Tensor, "#cloud query neighbor"]
    valid: Bool[Tensor, "cloud #query neighbor"] | None
    indices: Int[Tensor, "cloud query neighbor"] | None
    gathered: bool = False


def near(
    keys: Float[Tensor, "*cloud key dim"],
    queries: Float[Tensor, "*ask query dim"],
    quantile: float,
    periodic: tuple[bool, ...],
    mask: Bool[Tensor, "batch key"] | None = None,
) -> Near:
    """The real keys with ‖q − k‖² ≤ the quantile of their row, linearly interpolated.

    The value stands between the order statistics ⌊q(N−1)⌋ and the next, so that these are the k = ⌊q(N−1)⌋ + 1 nearest
    keys and their ties: a receptive field. It does not depend on the scale of the distances, and is kept by content, mesh
    by mesh. Positions at masked keys must be finite.
    """
    keys, queries = (cloud if cloud.ndim == 3 else cloud[None] for cloud in (keys, queries))
    if quantile == 1:
        return Near(_all_squared(keys, queries, periodic), None if mask is None else mask[:, None], None)
    found = []
    for cloud in range(max(len(keys), len(queries), 1 if mask is None else len(mask))):
        its_keys, its_queries = (of[min(cloud, len(of) - 1)] for of in (keys, queries))
        real = None if mask is None else mask[cloud].nonzero().squeeze(-1)
        its_keys = its_keys if real is None else its_keys[real]
        field = receptive_field(its_keys[None].detach(), its_queries[None].detach(), quantile, periodic, still=True)
        found.append((field.indices[0] if real is None else real[field.indices[0]], field.valid[0]))
    indices, valids = equally_wide(found)
    index = torch.stack(indices)
    of_cloud = torch.arange(len(index), device=index.device).clamp(max=len(keys) - 1)
    squared = squared_distances(wrap(queries[:, :, None] - keys[of_cloud[:, None, None], index], periodic))
    return Near(squared, torch.stack(valids), index)


class PositionAttention(nn.Module):
    """concat_h A_h U with A_h = softmax over the near keys of −s_h ‖q − k‖², s_h = tan(¼π(1 − 10⁻⁷)(1 + sin λ_h)).

    Neither queries nor keys nor values are projected; λ_h ~ U(0, 1) is all there is to learn, and s_h is at most 10⁴.
    """

    def __init__(self, heads: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.locality = nn.Parameter(torch.rand(heads, generator=generator))

    def scale(self) -> Float[Tensor, "head"]:
        angle = (math.pi / 4) * (1 - 1e-7) * (1 + self.locality.sin())
        return angle.clamp(max=math.atan(SHARPEST)).tan()

    def forward(self, where: Near) -> Float[Tensor, "cloud head query neighbor"]:
        """The weights A_h at the keys of `where`, for `attended`."""
        with full_precision(where.squared):
            logits = -self.scale()[:, None, None] * where.squared[:, None]
            if where.valid is not None:
                logits = logits.masked_fill(~where.valid[:, None], -math.inf)
            return logits.softmax(dim=-1)


def attended(
    x: Float[Tensor, "batch time key channel"],
    where: Near,
    weights: Float[Tensor, "cloud head query neighbor"],
) -> Float[Tensor, "batch time query features"]:
    """concat_h A_h x, the head first; features at neighbors are summed as they are read, never gathered.

    x at masked keys must be finite.
    """
    clouds, heads, num_queries = weights.shape[:3]
    rows = x.reshape(clouds, -1, *x.shape[-2:]).transpose(1, 2).to(weights.dtype)  # cloud key row channel
    with full_precision(weights):
        if where.indices is None:
            mixed = weights @ rows.flatten(2)[:, None]
        else:
            offset = torch.arange(clouds, device=x.device)[:, None, None] * x.shape[-2]
            index, table = (where.indices + offset).flatten(0, 1), rows.flatten(2).flatten(0, 1)
            by_head = [_summed(index, table, weights[:, head].flatten(0, 1), where.gathered) for head in range(heads)]
            mixed = torch.stack([of_head.view(clouds, num_queries, -1) for of_head in by_head], dim=1)
    mixed = mixed.unflatten(-1, (-1, x.shape[-1])).permute(0, 3, 2, 1, 4)  # cloud row query head channel
    return mixed.reshape(*x.shape[:2], num_queries, heads * x.shape[-1])


def _summed(
    index: Int[Tensor, "row neighbor"],
    table: Float[Tensor, "key features"],
    weights: Float[Tensor, "row neighbor"],
    gathered: bool,
) -> Float[Tensor, "row features"]:
    """Σ_n w_n table[index_n] of each row."""
    if gathered:
        return torch.einsum("rn,rnf->rf", weights, table[index])
    return embedding_bag(index, table, per_sample_weights=weights, mode="sum")


def _all_squared(
    keys: Float[Tensor, "#cloud key dim"], queries: Float[Tensor, "#cloud query dim"], periodic: tuple[bool, ...]
) -> Float[Tensor, "cloud query key"]:
    """Axis by axis, so that displacements of all pairs are never held for all axes together."""
    total: Tensor | float = 0.0
    for axis, wraps in enumerate(periodic):
        apart = queries[:, :, None, axis] - keys[:, None, :, axis]
        total = total + wrap(apart[..., None], (wraps,)).squeeze(-1).square()
    return torch.as_tensor(total)
