"""Symmetries: maps of places and values, in physical coordinates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calm_pde.errors import ConfigError
from calm_pde.geometry import Box
from calm_pde.records.symmetry import Symmetry, Turned, isotropic, signed_choice


def test_places_move_as_the_formula_says() -> None:
    turn = Symmetry(name="quarter turn", axes=(-2, 1), shift=(0.5, 0.0))
    np.testing.assert_allclose(turn.moved(np.array([[1.0, 2.0]])), [[-1.5, 1.0]])
    shift = Symmetry(name="along", shift=(1.0, -1.0), any_multiple=True)
    np.testing.assert_allclose(shift.moved(np.array([[1.0, 2.0]]), 0.25), [[1.25, 1.75]])


def test_fields_that_are_taken_keep_their_part_of_the_map() -> None:
    names = ("p", "u", "v")
    turn = Symmetry(name="turn", axes=(-2, 1), fields=(1, -3, 2))
    assert turn.of_fields(names, ["v", "u", "p"]) == turn.model_copy(update={"fields": (2, -1, 3)})
    assert turn.of_fields(names, ["p"]) == turn.model_copy(update={"fields": (1,)})
    assert turn.of_fields(names, ["u", "p"]) is None  # v would be needed
    values = np.array([[7.0, 1.0, 2.0]])  # p, u, v
    whole = signed_choice(values, turn.fields)
    part = signed_choice(values[:, [2, 1, 0]], (2, -1, 3))
    np.testing.assert_array_equal(part, whole[:, [2, 1, 0]])


def after(one: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(code) for code in signed_choice(np.array(one, dtype=float), axes))


def test_an_isotropic_equation_in_three_dimensions() -> None:
    """Permutations and signs of three axes: all 48 maps of a cube come from these."""
    box = Box((0.0, 1.0, -1.0), (2.0, 3.0, 1.0), True)
    found = isotropic(box, 4, velocity=(1, 2, 3))
    maps = {(1, 2, 3)}
    for _ in range(12):
        maps |= {after(one, symmetry.axes) for one in maps for symmetry in found if symmetry.axes}
    assert len(maps) == 48
    middle = np.array([[1.0, 2.0, 0.0]])
    for symmetry in found:
        if symmetry.axes:
            np.testing.assert_allclose(symmetry.moved(middle), middle)  # the box stays where it is
            assert symmetry.fields[1:] == tuple(code + (1 if code > 0 else -1) for code in symmetry.axes)
            assert symmetry.fields[0] == 1
    assert sum(symmetry.any_multiple for symmetry in found) == 3
    assert not any("turn" in symmetry.name for symmetry in isotropic(Box((0.0, 0.0), (2.0, 1.0), True), 1))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "axes, a shift or both are needed"),
        ({"axes": (1, 1)}, r"axes must hold each of 1 … 2 once, got \(1, 1\)"),
        ({"axes": (0,)}, "axes must hold each of 1 … 1 once"),
        ({"axes": (1,), "fields": (3, 1)}, "fields must hold each of 1 … 2 once"),
        ({"axes": (2, 1), "shift": (1.0,)}, "must be of one dimension"),
        ({"shift": (0.0,), "any_multiple": True}, "which is not zero"),
        ({"axes": (-1,), "shift": (1.0,), "any_multiple": True}, "for a shift alone"),
    ],
)
def test_what_is_no_map_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Symmetry.model_validate({"name": "wrong"} | given)


def test_conditions_stand_in_a_file_only_where_there_are_some() -> None:
    plain = Symmetry(name="half turn", axes=(-1, -2))
    assert "conditions" not in plain.model_dump(mode="json")
    told = Symmetry(name="turn", axes=(-2, 1), conditions={"wind_x": "-wind_y", "wind_y": "wind_x"})
    assert told.conditions == {"wind_x": Turned(of="wind_y", sign=-1), "wind_y": Turned(of="wind_x")}
    assert Symmetry.model_validate_json(told.model_dump_json()) == told
    assert all(one.conditions == {"ν": Turned(of="ν")} for one in isotropic(Box((0.0,), (1.0,), True), 1, scalars=("ν",)))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"axes": (-1,), "conditions": {"a": "b"}}, "conditions must be made of one another"),
        ({"axes": (-1,), "conditions": {"a": "b", "b": "b"}}, "conditions must be made of one another"),
        ({"shift": (1.0,), "any_multiple": True, "conditions": {"a": "-a"}}, "a can only stay as it is"),
    ],
)
def test_conditions_that_are_no_map_are_refused(more: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Symmetry(name="wrong", **more)
