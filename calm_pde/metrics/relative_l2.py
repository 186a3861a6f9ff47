"""Relative L2: the norm of the error over that of the truth, frame by frame (the paper's) or over space and time."""

from __future__ import annotations

from typing import ClassVar

import torch

from calm_pde.metrics.metric import PerSample
from calm_pde.types import Bool, Float, Tensor

SMALLEST = 1e-5
"""In a loss, and only there, the squared norm of a normalized target counts as at least this: one near zero does not decide."""


def relative_l2(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    mask: Bool[Tensor, "batch point"] | None = None,
) -> Float[Tensor, "batch time channel"]:
    """‖û − u‖/‖u‖ over points, per sample, frame and channel (the paper's error before its mean), in float64 at any scale.

    Infinite where the prediction is not finite; else NaN where the target is exactly zero, to be left out of means and counted.
    """
    return _relative(prediction, target, mask, (2,))


def relative_l2_spacetime(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    mask: Bool[Tensor, "batch point"] | None = None,
) -> Float[Tensor, "batch channel"]:
    """The same with one norm over space and time, as the paper's Burgers runs take it."""
    return _relative(prediction, target, mask, (1, 2))


class RelativeL2(PerSample):
    """The paper's error, mean over frames."""

    name: ClassVar[str] = "relative_l2"
    title: ClassVar[str] = "relative L2"
    per_frame: ClassVar[bool] = True
    published_padding: ClassVar[bool] = True
    errors = staticmethod(relative_l2)

    @classmethod
    def frames_name(cls) -> str:
        return "frames"


class RelativeL2Spacetime(PerSample):
    """The error of the paper's Burgers runs."""

    name: ClassVar[str] = "relative_l2_spacetime"
    title: ClassVar[str] = "relative L2 over space and time"
    short: ClassVar[str] = "space-time"
    published_padding: ClassVar[bool] = True
    errors = staticmethod(relative_l2_spacetime)


def relative_l2_loss(
    prediction: Float[Tensor, "batch time point channel"],
    target: Float[Tensor, "batch time point channel"],
    mask: Bool[Tensor, "batch point"] | None = None,
    spacetime: bool = False,
    weights: Float[Tensor, "channel"] | None = None,
) -> Float[Tensor, "batch"]:
    """The loss of normalized fields: √(‖û − u‖²/max(‖u‖², 1e-5)) per frame, or over space and time, and then the mean.

    `weights` are those of channels, 1 in the mean.
    """
    wrong, target = without_masked(prediction - target, mask), without_masked(target, mask)
    axes = (1, 2) if spacetime else (2,)
    ratio = wrong.square().sum(dim=axes) / target.square().sum(dim=axes).clamp(min=SMALLEST)
    return mean_error(ratio.sqrt(), weights)


def mean_error(
    errors: Float[Tensor, "batch *time channel"], weights: Float[Tensor, "channel"] | None
) -> Float[Tensor, "batch"]:
    """The mean over frames, and over channels by their weights."""
    return (errors if weights is None else errors * weights).flatten(1).mean(dim=1)


def _relative(prediction: Tensor, target: Tensor, mask: Tensor | None, axes: tuple[int, ...]) -> Tensor:
    target = without_masked(target, mask).double()
    wrong = without_masked(prediction, mask).double() - target
    peak = target.abs().amax(dim=axes, keepdim=True)
    scale = torch.where(peak > 0, peak / (2 * torch.frexp(peak).mantissa), 1.0)  # a power of two: scaling by it is exact
    error, size = ((values / scale).square().sum(dim=axes) for values in (wrong, target))
    found = torch.where(size > 0, (error / size).sqrt(), torch.nan)
    return torch.where(torch.isfinite(error), found, torch.inf)


def without_masked(values: Tensor, mask: Tensor | None) -> Tensor:
    """The values, 0 where no real point is."""
    return values if mask is None else values.masked_fill(~mask[:, None, :, None], 0.0)
