"""What `calm check` finds: a level, a subject, and words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    level: Literal["good", "doubtful", "wrong"]
    subject: str
    text: str


def verdict(indices: list[int], subject: str, good: str, bad: str, level: Literal["doubtful", "wrong"]) -> Finding:
    """Good where no trajectory is named; else how many are, and the first of them."""
    if not indices:
        return Finding("good", subject, good)
    shown = ", ".join(map(str, indices[:5])) + (", …" if len(indices) > 5 else "")
    return Finding(level, subject, f"{len(indices)} trajectories {bad}: {shown}")
