"""What a neighborhood looks like: how many points it has, how far they are, where, and how they spread."""

from __future__ import annotations

import torch

from calm_pde.geometry import squared_distances
from calm_pde.nn.segments import Segments
from calm_pde.types import Bool, Float, Tensor

_SMALL = 1e-4  # beside a variance: a statistic that hardly differs between places is told as what it is


def count_of(dim: int) -> int:
    """How many numbers there are of a neighborhood."""
    return 3 + 2 * dim


def neighborhood_statistics(places: Segments, d: Float[Tensor, "pair dim"]) -> Float[Tensor, "place statistic"]:
    """log(1 + n) of n neighbors at displacements d; mean and variance of |d|; mean of d; eigenvalues of the covariance of d.

    The eigenvalues fall. All are zero without neighbors. Displacements are told in units of the radius; the logarithm is ours,
    since meshes are graded.
    """
    away = _length(squared_distances(d))
    mean_away, center = places.mean(away), places.mean(d)
    variance = places.mean((away - places.spread(mean_away)).square())
    apart = d - places.spread(center)
    covariance = places.mean(apart[:, :, None] * apart[:, None, :])
    spread = covariance[..., 0] if d.shape[-1] == 1 else torch.linalg.eigvalsh(covariance).flip(-1)
    count = places.sizes.to(d).log1p()
    return torch.cat([torch.stack([count, mean_away, variance], dim=-1), center, spread], dim=-1)


def standardized(
    statistics: Float[Tensor, "cloud place statistic"], inhabited: Bool[Tensor, "cloud place"]
) -> Float[Tensor, "cloud place statistic"]:
    """(x − μ)/√(σ² + 10⁻⁴) over the places of each cloud that have neighbors; zero at those that have none."""
    weight = inhabited[..., None].to(statistics)
    count = weight.sum(dim=1, keepdim=True).clamp(min=1)
    centered = (statistics - (weight * statistics).sum(dim=1, keepdim=True) / count) * weight
    return centered * (centered.square().sum(dim=1, keepdim=True) / count + _SMALL).rsqrt()


def _length(squared: Float[Tensor, "pair"]) -> Float[Tensor, "pair"]:
    """√, whose derivative at zero is zero."""
    positive = squared > 0
    return torch.where(positive, torch.where(positive, squared, 1.0).sqrt(), 0.0)
