"""How a model is trained where nobody says otherwise, and what one training step of it is when speeds are compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Timed:
    """A training step of the comparison of speed: all transitions of 8 trajectories, as at the end of the schedule.

    Args:
        what: the step in words.
        words: behind the model's title, where it takes part more than once.
        train: settings of the training.
        stage: which of the model's stages it belongs to.
        scattered: on scattered points instead of the grid.
        per_transition: one optimizer step per transition; all of them count as one.
        answers: whether it is timed in inference; of several with the same model one is enough.
    """

    what: str
    words: str = ""
    preset: str = "navier_stokes_2d"
    train: dict[str, Any] = field(default_factory=lambda: {"feeding": "rollout", "curriculum": False})
    stage: int = 0
    scattered: bool = False
    per_transition: bool = False
    answers: bool = True


@dataclass(frozen=True)
class Practice:
    """What is known of the paper's runs, and where it is silent the original work's settings.

    Args:
        train: settings on all problems.
        problems: those of each problem that the model is made for, laid over them; `iterations` stands for epochs where the
            paper counts steps.
        by_recipe: whether the shipped recipes say all this instead.
        paper_step: milliseconds and megabytes of a training step on 32 trajectories on an A100, as printed.
    """

    train: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, dict[str, Any]] = field(default_factory=dict)
    by_recipe: bool = False
    timed: tuple[Timed, ...] = ()
    paper_step: tuple[float, float] | None = None
