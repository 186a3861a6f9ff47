"""Known functions of time: numbers at knots, linear between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from calm_pde.types import Float, Tensor

_ROUNDING = 1e-9  # of the time from the first frame to the last


@dataclass(frozen=True)
class Signals:
    """c(t) of each sample, in frames from its state; level before the first knot and beyond the last."""

    times: Float[Tensor, "batch knot"]
    values: Float[Tensor, "batch knot signal"]

    def at(self, times: Float[Tensor, "time"]) -> Float[Tensor, "batch time signal"]:
        """c at the same times for all samples; differentiable by the values."""
        if self.times.shape[1] == 1:
            return self.values.expand(-1, len(times), -1)
        asked = times.to(self.times).expand(len(self.times), -1).contiguous()
        late = torch.searchsorted(self.times.contiguous(), asked).clamp(1, self.times.shape[1] - 1)
        low, high = self.times.gather(1, late - 1), self.times.gather(1, late)
        share = ((asked - low) / (high - low)).clamp(0, 1)[..., None].to(self.values.dtype)
        channels = self.values.shape[-1]
        before, after = (self.values.gather(1, place[..., None].expand(-1, -1, channels)) for place in (late - 1, late))
        return before.lerp(after, share)


def knot_problem(knots: np.ndarray, times: np.ndarray) -> tuple[str, str] | None:
    """What is expected of the knots (knot,) of a trajectory with frames at `times`, and what came; None where all is well."""
    if not np.isfinite(knots).all() or (np.diff(knots) <= 0).any():
        return "finite, strictly increasing numbers", "others"
    room = _ROUNDING * float(times[-1] - times[0])
    if not len(knots) or knots[0] > times[0] + room or knots[-1] < times[-1] - room:
        got = f"{knots[0]:g} to {knots[-1]:g}" if len(knots) else "none"
        return f"knots from the first frame to the last, {times[0]:g} to {times[-1]:g}", got
    return None
