"""The mean square of an error over what is real and not prescribed."""

from __future__ import annotations

import torch

from calm_pde.types import Bool, Float, Tensor


def mean_square(
    error: Float[Tensor, "batch time point channel"],
    mask: Bool[Tensor, "batch point"] | None = None,
    known: Bool[Tensor, "batch time point channel"] | None = None,
    weights: Float[Tensor, "channel"] | None = None,
) -> Float[Tensor, "batch"]:
    """Σ w_c e²/n of each window, over its n numbers at real points that are not known; 0 where there are none.

    Args:
        weights: of the channels, in the mean 1.
    """
    counted = torch.ones_like(error, dtype=torch.bool)
    if mask is not None:
        counted &= mask[:, None, :, None]
    if known is not None:
        counted &= ~known
    squares = error.masked_fill(~counted, 0.0).square()
    squares = squares if weights is None else squares * weights
    return squares.flatten(1).sum(dim=1) / counted.flatten(1).sum(dim=1).clamp(min=1)
