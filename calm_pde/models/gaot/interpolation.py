"""A state between its points: by a plane through those nearby, exact at the points and for what is linear in space."""

from __future__ import annotations

import torch

from calm_pde.engine.precision import full_precision
from calm_pde.geometry import squared_distances
from calm_pde.nn.neighborhoods import Neighborhoods, neighborhoods
from calm_pde.types import Bool, Float, Tensor

_NEAREST = 4  # points for each axis
_AT_POINT, _FLAT = 1e-20, 1e-9  # beside squared distances, and beside the spread of points that may lie on a line


def interpolation(
    points: Float[Tensor, "#cloud point dim"],
    queries: Float[Tensor, "#cloud query dim"],
    mask: Bool[Tensor, "batch point"] | None,
    periodic: tuple[bool, ...],
) -> tuple[Neighborhoods, Float[Tensor, "pair 1"]]:
    """The points near each query and their weights ω: û(q) = Σ ω_i u_i is the value at q of the plane with the least
    Σ w_i (plane(y_i) − u_i)², w_i = 1/|y_i − q|², through the 4·dim nearest real points."""
    dim, wide = points.shape[-1], float(points.shape[-1]) + 2 * _reach(points, queries)
    near = neighborhoods(points, queries, wide, periodic, mask, most=_NEAREST * dim)
    places = near.places
    with full_precision(points):
        d = near.displacements(points.double(), queries.double(), periodic)
        squared = squared_distances(d)
        scale = places.spread(places.mean(squared.detach())).clamp(min=torch.finfo(torch.float64).tiny)
        d, squared = d / scale.sqrt()[:, None], squared / scale
        shares = 1 / (squared + _AT_POINT)
        shares = (shares / places.spread(places.sum(shares)))[:, None]
        center = places.sum(shares * d)
        apart = d - places.spread(center)
        spread = places.sum(shares[..., None] * apart[:, :, None] * apart[:, None, :])
        slope = torch.linalg.solve(spread + _FLAT * torch.eye(dim).to(d), center[..., None])[..., 0]
        weights = shares * (1 - (places.spread(slope) * apart).sum(dim=-1, keepdim=True))
    return near, weights.to(points.dtype)


def interpolated(
    values: Float[Tensor, "batch point channel"], near: Neighborhoods, weights: Float[Tensor, "pair 1"]
) -> Float[Tensor, "batch query channel"]:
    """Σ ω_i u_i."""
    taken = near.points.spread(near.by_points(values))
    return near.by_samples(near.places.sum(weights[..., None].to(taken) * taken))


def _reach(points: Tensor, queries: Tensor) -> float:
    """No point is farther from any query than this and the box's diagonal."""
    return max(float(where.detach().abs().max()) for where in (points, queries))
