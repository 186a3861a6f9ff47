"""The errors and warnings that users meet: each names the thing, what was expected, what came, and the fix."""

from __future__ import annotations

import sys
import warnings
from typing import Any


class CalmError(ValueError):
    """The base of everything this package raises about what it was given."""

    def __reduce__(self) -> tuple[Any, ...]:
        """As itself through a pipe, from a process that computes to the one that tells."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[CalmError], arguments: tuple[object, ...], state: dict[str, object]) -> CalmError:
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error


class InputError(CalmError):
    """An argument at a public door does not fit."""

    def __init__(self, argument: str, *, expected: str, got: str, fix: str) -> None:
        super().__init__(f"{argument}: expected {expected}, got {got}. {fix}")
        self.argument = argument


class ConfigError(CalmError):
    """A configuration holds an unknown key or an impossible value."""


class OutsideBoxWarning(UserWarning):
    """Points or queries lie outside the unit box on a non-periodic axis; the model extrapolates there."""


class OutsideMeshWarning(UserWarning):
    """A surrogate is asked far from every point of the mesh, as in a hole of it."""


class DivergedError(CalmError):
    """The answer of a surrogate stops being finite."""


class FileError(CalmError):
    """A file is missing, damaged, foreign, or does not hold what it should."""

    def __init__(self, path: object, problem: str, *, part: str = "", fix: str = "") -> None:
        where = f"{path}, {part}" if part else f"{path}"
        super().__init__(f"{where}: {problem}.{f' {fix}' if fix else ''}")
        self.path, self.part = path, part


class TrainingRangeWarning(UserWarning):
    """What is asked lies beyond what a surrogate was trained on."""


class TrainingError(CalmError):
    """Training cannot go on; the state before it is kept."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's that led here: the one that called this package, be it as a module of torch's."""
    frame, rooms = sys._getframe(0), []
    while frame is not None:
        rooms.append(frame.f_globals.get("__name__", "").partition(".")[0])
        frame = frame.f_back
    outside = max(place for place, room in enumerate(rooms) if room == "calm_pde") + 1
    while outside < len(rooms) and rooms[outside] == "torch":
        outside += 1
    warnings.warn(message, category, stacklevel=outside + 1)
