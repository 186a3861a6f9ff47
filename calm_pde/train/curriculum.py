"""How long the windows of an epoch are."""

from __future__ import annotations

import math


def window_length(epoch: int, epochs: int, num_frames: int, first_length: int) -> int:
    """min(T, n₀ + ⌊½(1 + tanh((e/E − ½)/0.3))·T⌋) frames, the first included."""
    share = 0.5 * (1 + math.tanh((epoch / epochs - 0.5) / 0.3))
    return min(num_frames, first_length + math.floor(share * num_frames))
