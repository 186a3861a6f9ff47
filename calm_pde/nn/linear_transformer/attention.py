"""What attention without a softmax over points is made of: features of queries and keys that sum to one, and masked sums."""

from __future__ import annotations

from calm_pde.types import Bool, Float, Tensor


def in_heads(x: Float[Tensor, "row point channel"], heads: int) -> Float[Tensor, "row head point feature"]:
    """The channels of each head."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def together(x: Float[Tensor, "row head point feature"]) -> Float[Tensor, "row point channel"]:
    """The heads side by side."""
    return x.transpose(1, 2).flatten(2)


def shares(x: Float[Tensor, "row point channel"], heads: int) -> Float[Tensor, "row head point feature"]:
    """The softmax over the channels of each head."""
    return in_heads(x, heads).softmax(dim=-1)


def real(x: Float[Tensor, "row head point feature"], mask: Bool[Tensor, "row point"] | None) -> Tensor:
    """Zero where points are masked, so that they are in no sum."""
    return x if mask is None else x.masked_fill(~mask[:, None, :, None], 0.0)


def real_count(x: Float[Tensor, "row point channel"], mask: Bool[Tensor, "row point"] | None) -> Tensor | int:
    """How many points of each row are real, for the axes (row, head, point, feature)."""
    return x.shape[1] if mask is None else mask.sum(dim=1).view(-1, 1, 1, 1)


def contracted(
    query: Float[Tensor, "row head query feature"],
    key: Float[Tensor, "row head point feature"],
    value: Float[Tensor, "row head point feature"],
) -> Float[Tensor, "row head query feature"]:
    """(q kᵀ) v as q (kᵀ v): linear in the number of points, where softmax over them would be quadratic."""
    return query @ (key.mT @ value)
