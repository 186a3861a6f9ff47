"""Errors keep their type, text and what they name on the way from a process that computes."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from calm_pde.errors import CalmError, ConfigError, FileError, InputError, warn


@pytest.mark.parametrize(
    "error",
    [
        InputError("mach", expected="less", got="more", fix="Less."),
        FileError("a.h5", "is damaged", part="header", fix="Write it again."),
        ConfigError("unknown key"),
    ],
)
def test_an_error_arrives_as_itself(error: CalmError) -> None:
    other = pickle.loads(pickle.dumps(error))
    assert type(other) is type(error)
    assert str(other) == str(error)
    assert vars(other) == vars(error)


def test_a_warning_names_the_line_that_called_this_package() -> None:
    """However deep in it the warning is given, and whoever else stands between."""
    inside: dict[str, Any] = {"__name__": "calm_pde.made_up", "warn": warn}
    exec("def deeper(call):\n    return call(lambda: warn('far off'))\ndef door(call):\n    return deeper(call)", inside)
    with pytest.warns(UserWarning, match="far off") as found:
        inside["door"](lambda told: told())
    assert found[0].filename == __file__
