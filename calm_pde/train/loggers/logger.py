"""What a logger is: it takes numbers by name and step, and goes on where an interrupted run left off."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from calm_pde.errors import ConfigError


class Logger(ABC):
    """
    Args:
        run: the folder of the run.
        name: of the recipe.
        settings: the recipe, nested.
        step: from which on it logs; what an interrupted run logged after it is logged again.
    """

    name: ClassVar[str]
    extra: ClassVar[str]

    @abstractmethod
    def __init__(self, run: Path, name: str, settings: dict[str, Any], step: int) -> None: ...

    @abstractmethod
    def add(self, values: dict[str, float], step: int) -> None:
        """Numbers of one step."""

    @abstractmethod
    def close(self, finished: bool) -> None:
        """At the end of the training, or where it is interrupted."""

    @classmethod
    def module(cls, name: str) -> ModuleType:
        """What it logs with, which comes with an extra."""
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise ConfigError(
                f"train.log: {cls.name} is not installed ({error}). Run: pip install 'calm-pde[{cls.extra}]'"
            ) from error


def flat(settings: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Nested settings by their path, as in train.epochs."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= flat(value, f"{path}{key}.") if isinstance(value, dict) and value else {f"{path}{key}": value}
    return found
