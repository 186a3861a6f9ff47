"""What a point model reads of its mesh beside the values: positions, and the learned meaning of each kind of point."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.types import Bool, Float, Int, Tensor


def shown(
    points: Float[Tensor, "*sample point dim"], mask: Bool[Tensor, "batch point"] | None
) -> Float[Tensor, "cloud point dim"]:
    """The points of each distinct mesh; those that are masked (in all samples of a shared mesh) are moved to the origin."""
    clouds = points if points.ndim == 3 else points[None]
    if mask is None:
        return clouds
    seen = mask if points.ndim == 3 else mask.any(dim=0)[None]
    return clouds.masked_fill(~seen[..., None], 0.0)


class OneHot(nn.Module):
    """1 at a point's own code among those known, 0 at the others; without codes, nothing."""

    codes: Tensor

    def __init__(self, codes: tuple[int, ...]) -> None:
        super().__init__()
        self.width = len(codes)
        self.register_buffer("codes", torch.tensor(codes, dtype=torch.int64), persistent=False)

    def forward(
        self, points: Float[Tensor, "*sample point dim"], node_type: Int[Tensor, "*sample_ point"] | None
    ) -> Float[Tensor, "_ 1 point kind"]:
        """Of the points of each mesh, or of all samples; what a masked point gets does not matter."""
        if node_type is None:
            return points.new_zeros(1, 1, points.shape[-2], 0)
        known = (node_type[..., None] == self.codes).to(points.dtype)
        return (known if known.ndim == 3 else known[None])[:, None]


class NodeTypes(nn.Module):
    """A learned vector for each known code, drawn from N(0, 1); without codes, none."""

    codes: Tensor

    def __init__(self, codes: tuple[int, ...], width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.width = width if codes else 0
        self.register_buffer("codes", torch.tensor(codes, dtype=torch.int64), persistent=False)
        if codes:
            self.weight = nn.Parameter(torch.randn(len(codes), width, generator=generator))

    def forward(self, node_type: Int[Tensor, "*sample point"]) -> Float[Tensor, "*sample point feature"]:
        """The vector of each point's kind; what a masked point gets does not matter."""
        return self.weight[(node_type[..., None] == self.codes).to(torch.int64).argmax(dim=-1)]

    def beside(
        self, positions: Float[Tensor, "cloud point dim"], node_type: Int[Tensor, "*sample point"] | None
    ) -> Float[Tensor, "_ point feature"]:
        """Positions ‖ vectors of the points' kinds."""
        if not self.width or node_type is None:
            return positions
        vectors = self(node_type if node_type.ndim == 2 else node_type[None])
        samples = max(len(positions), len(vectors))
        return torch.cat([part.expand(samples, -1, -1) for part in (positions, vectors)], dim=-1)
