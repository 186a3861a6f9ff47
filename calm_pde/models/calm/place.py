"""What the place of a query says of the answer there: where it lies in the box, and how far from walls and boundary points."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.engine.fourier import fourier_features
from calm_pde.engine.receptive_fields import Neighbors, receptive_field
from calm_pde.geometry import inside, squared_distances, wrap
from calm_pde.models.calm.config import PlaceConfig
from calm_pde.nn.fourier import box_frequencies
from calm_pde.nn.pointwise import linear
from calm_pde.types import Bool, Float, Int, Tensor

INTERIOR = 0
"""The node type of points that belong to no boundary: those of the fluid, or of the body."""


class Place(nn.Module):
    """g(x) = W₂ GELU(W₁ φ(x) + b₁) + b₂, φ(x) = sin 2πxB ‖ cos 2πxB ‖ ℓ(walls) ‖ ℓ(boundary), ℓ(d) = ½ log(1 + (d/scale)²).

    B is drawn from N(0, std²), and rounded to whole numbers on periodic axes, so that g is periodic there. There is one wall
    distance for each axis that is not periodic: to the nearer of the box's two walls, 0 beyond them. The boundary distance
    is that to the nearest given point whose node type is not 0, and the diagonal of the unit box where there is none.
    ℓ is smooth also at d = 0, where many queries are.

    Args:
        bounded: whether node types are known, and with them the boundary distance.
    """

    frequencies: Tensor

    def __init__(
        self, config: PlaceConfig, periodic: tuple[bool, ...], bounded: bool, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.periodic, self.bounded, self.scale = periodic, bounded, config.scale
        frequencies = box_frequencies(periodic, config.fourier_width, config.fourier_std, generator)
        self.register_buffer("frequencies", frequencies)
        known = config.fourier_width + periodic.count(False) + bounded
        self.expand = linear(known, config.width, generator)
        self.reduce = linear(config.width, config.channels, generator)

    def forward(
        self,
        queries: Float[Tensor, "*ask query dim"],
        points: Float[Tensor, "*sample point dim"] | None = None,
        mask: Bool[Tensor, "batch point"] | None = None,
        node_type: Int[Tensor, "*kind point"] | None = None,
        neighbors: Neighbors | None = None,
    ) -> Float[Tensor, "cloud query channel"]:
        """g at the queries; points with mask and node types only where it is bounded, and then always."""
        asked = _exact(queries if queries.ndim == 3 else queries[None])
        at = inside(asked, self.periodic)
        open_axes = [axis for axis, wraps in enumerate(self.periodic) if not wraps]
        walls = torch.minimum(at[..., open_axes], 1 - at[..., open_axes]).clamp(min=0)
        known = [fourier_features(at, _exact(self.frequencies)), self._compressed(walls.square())]
        if self.bounded and points is not None and node_type is not None:
            away = self._boundary(asked, points, mask, node_type, neighbors)
            known.append(self._compressed(away)[..., None])
        clouds = max(map(len, known))
        x = torch.cat([part.expand(clouds, -1, -1) for part in known], dim=-1).to(self.expand.weight.dtype)
        return self.reduce(nn.functional.gelu(self.expand(x)))

    def neighbors(
        self,
        queries: Float[Tensor, "*ask query dim"],
        points: Float[Tensor, "*sample point dim"],
        mask: Bool[Tensor, "batch point"] | None,
        node_type: Int[Tensor, "*kind point"],
    ) -> Neighbors:
        """The nearest boundary points of every query; any points at all where there is none."""
        cloud, solid = _boundary_points(points, mask, node_type)
        still = not torch.is_grad_enabled() or not (points.requires_grad or queries.requires_grad)
        asked = queries if queries.ndim == 3 else queries[None]
        return receptive_field(cloud, asked, 0.0, self.periodic, solid | ~solid.any(dim=-1, keepdim=True), still)

    def _boundary(
        self, asked: Tensor, points: Tensor, mask: Tensor | None, node_type: Tensor, neighbors: Neighbors | None
    ) -> Float[Tensor, "cloud query"]:
        """Squared distances to the nearest boundary point."""
        found = (neighbors or self.neighbors(asked, points, mask, node_type)).indices
        cloud, solid = _boundary_points(_exact(points), mask, node_type)
        samples = torch.arange(len(found), device=found.device)[:, None, None]
        near = cloud.expand(len(found), -1, -1)[samples, found]
        squared = squared_distances(wrap(asked[:, :, None] - near, self.periodic)).min(dim=-1).values
        return squared.where(solid.any(dim=-1, keepdim=True), float(len(self.periodic)))

    def _compressed(self, squared: Float[Tensor, "*axes"]) -> Float[Tensor, "*axes"]:
        return torch.log1p(squared / self.scale**2) / 2


def _boundary_points(
    points: Tensor, mask: Tensor | None, node_type: Tensor
) -> tuple[Float[Tensor, "cloud point dim"], Bool[Tensor, "#cloud point"]]:
    """The points, all but those of the boundary moved to the origin; and which of them belong to it."""
    solid = node_type != INTERIOR
    solid = solid if mask is None else solid & mask
    solid = solid if solid.ndim == 2 else solid[None]
    points = points if points.ndim == 3 else points[None]
    return points.masked_fill(~solid[..., None], 0.0), solid


def _exact(coordinates: Tensor) -> Tensor:
    """In single precision at least."""
    return coordinates.to(torch.promote_types(coordinates.dtype, torch.float32))
