"""Which frames of which trajectories an epoch shows, drawn from seed, epoch and sample alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """`length` frames of the trajectory at `position` in its split, from frame `start` on."""

    position: int
    start: int
    length: int


def epoch_windows(
    num_trajectories: int,
    num_frames: int,
    length: int,
    *,
    seed: int,
    epoch: int,
    random_starts: bool = False,
    room: int = 2,
    per_trajectory: int = 1,
) -> list[Window]:
    """Every trajectory `per_trajectory` times, in an order of the epoch's own.

    With `random_starts` each window draws its own first frame, while it is at least `room` frames shorter than the
    trajectory; otherwise all start at frame 0.
    """
    draws = random_starts and length <= num_frames - room
    found = []
    for position in range(num_trajectories):
        keyed = np.random.default_rng([seed, epoch, position])
        starts = keyed.integers(0, num_frames - length + 1, size=per_trajectory) if draws else [0] * per_trajectory
        found += [Window(position, int(start), length) for start in starts]
    order = np.random.default_rng([seed, epoch]).permutation(len(found))
    return [found[place] for place in order]


def whole_windows(num_trajectories: int, num_frames: int) -> list[Window]:
    """Every trajectory once, whole and in order."""
    return [Window(position, 0, num_frames) for position in range(num_trajectories)]


def grouped(windows: Sequence[Window], size: int) -> list[list[Window]]:
    """Batches of `size` windows; the last one may be smaller."""
    return [list(windows[start : start + size]) for start in range(0, len(windows), size)]
