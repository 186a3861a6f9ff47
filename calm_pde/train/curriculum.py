"""How the windows of an epoch grow, and how much of them a model feeds itself."""

from __future__ import annotations

import math


def window_length(epoch: int, epochs: int, num_frames: int, first_length: int) -> int:
    """min(T, n₀ + ⌊½(1 + tanh((e/E − ½)/0.3))·T⌋) frames, the first included."""
    return min(num_frames, first_length + math.floor(_risen(epoch / epochs, 0.3) * num_frames))


def linear_length(epoch: int, epochs: int, num_frames: int, first_length: int, share: float) -> int:
    """n₀ + 2⌊max(0, 2e/(rE) − 1)·(T − n₀)/2⌋ frames up to epoch rE, T from then on (OFormer's, by epochs)."""
    if epoch >= share * epochs or first_length >= num_frames:
        return num_frames
    grown = max(0.0, 2 * epoch / (share * epochs) - 1)
    return first_length + 2 * math.floor(grown * (num_frames - first_length) / 2)


def self_fed(epoch: int, epochs: int, num_frames: int) -> int:
    """t_ar = clamp(⌊½(1 + tanh((e/E − ½)/0.2))·T⌋, 1, T): the frames that come from a model's own answers (CAPE's)."""
    return min(max(math.floor(_risen(epoch / epochs, 0.2) * num_frames), 1), num_frames)


def _risen(share: float, width: float) -> float:
    return 0.5 * (1 + math.tanh((share - 0.5) / width))
