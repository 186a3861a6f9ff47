"""Diffusion in a few steps: how noise grows, what a network learns to say of it, and how a sample is refined from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from calm_pde.types import Float, Int, Tensor


class NoiseSchedule:
    """β_k = m^((K − k)/K) for k = 0 … K: from the minimum m to 1, so that the last level is noise alone.

    With ᾱ_k = Π_{i ≤ k} (1 − β_i) a sample y is seen as y_k = √ᾱ_k y + √(1 − ᾱ_k) ε, and v = √ᾱ_k ε − √(1 − ᾱ_k) y is what a
    network says of it. All coefficients are computed in double precision.
    """

    def __init__(self, steps: int, minimum: float) -> None:
        self.steps = steps
        self.betas = [minimum ** ((steps - level) / steps) for level in range(steps + 1)]
        self.kept = [math.prod(1 - beta for beta in self.betas[: level + 1]) for level in range(steps + 1)]
        """ᾱ_k"""

    def noised(
        self, y: Float[Tensor, "batch *axes"], noise: Float[Tensor, "batch *axes"], levels: Int[Tensor, "batch"]
    ) -> tuple[Tensor, Tensor]:
        """(y_k, v) of each sample at its own level."""
        kept = y.new_tensor([math.sqrt(kept) for kept in self.kept])[levels]
        lost = y.new_tensor([math.sqrt(1 - kept) for kept in self.kept])[levels]
        kept, lost = (part.view(-1, *(1,) * (y.ndim - 1)) for part in (kept, lost))
        return kept * y + lost * noise, kept * noise - lost * y

    def clean(self, y: Tensor, velocity: Tensor, level: int) -> Tensor:
        """x̂ = √ᾱ_k y_k − √(1 − ᾱ_k) v."""
        return math.sqrt(self.kept[level]) * y - math.sqrt(1 - self.kept[level]) * velocity

    def weights(self, level: int) -> tuple[float, float, float]:
        """Of x̂, of y_k and of fresh noise in y_{k−1}: √ᾱ_{k−1} β_k/(1 − ᾱ_k), √(1 − β_k) (1 − ᾱ_{k−1})/(1 − ᾱ_k) and the
        root of (1 − ᾱ_{k−1}) β_k/(1 − ᾱ_k), for k ≥ 1."""
        beta, kept, before = self.betas[level], self.kept[level], self.kept[level - 1]
        return (
            math.sqrt(before) * beta / (1 - kept),
            math.sqrt(1 - beta) * (1 - before) / (1 - kept),
            math.sqrt((1 - before) * beta / (1 - kept)),
        )

    def sample(
        self, velocity: Callable[[Tensor, int], Tensor], noise: Sequence[Float[Tensor, "*axes"]]
    ) -> Float[Tensor, "*axes"]:
        """From noise[0] at level K down to level 0, whose x̂ is the sample; each level but the last adds fresh noise."""
        y = noise[0]
        for level, fresh in zip(range(self.steps, 0, -1), noise[1:], strict=True):
            of_clean, of_noised, of_fresh = self.weights(level)
            y = of_clean * self.clean(y, velocity(y, level), level) + of_noised * y + of_fresh * fresh
        return self.clean(y, velocity(y, 0), 0)
