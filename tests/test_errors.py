"""Errors keep their type, text and what they name on the way from a process that computes."""

from __future__ import annotations

import pickle

import pytest

from calm_pde.errors import CalmError, ConfigError, FileError, InputError


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
