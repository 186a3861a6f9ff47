"""What an equation leaves invariant: maps of places and values that turn every solution into another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import field_validator, model_serializer, model_validator

from calm_pde.config import Config
from calm_pde.geometry import Box


class Turned(Config):
    """What a condition becomes under a symmetry: `sign` × the condition `of` + `plus`."""

    of: str
    sign: Literal[1, -1] = 1
    plus: float = 0.0


class Symmetry(Config):
    """With u(x, t) the field (F u)(g⁻¹x, t) is a solution too, where g x = M x + s, in physical coordinates.

    M and F take coordinates and fields in another order and with another sign, which is told by their numbers from 1: `axes`
    of (2, -1) is g x = (x₂, −x₁) + s. A shift by any multiple of s instead of s itself is a translation.

    Args:
        axes: M; every axis as it is where nothing is told.
        fields: F; every field as it is where nothing is told.
        any_multiple: of the shift; only where M and F change nothing.
        conditions: what parameters, signals and features of each point become, by name; for `{"of": "wind_y"}` the name alone
            will do, and "-wind_y" with a sign. Of those that it does not name nothing is known: a training that gives them
            to its model moves nothing.
    """

    name: str
    axes: tuple[int, ...] = ()
    shift: tuple[float, ...] = ()
    fields: tuple[int, ...] = ()
    any_multiple: bool = False
    conditions: dict[str, Turned] = {}  # noqa: RUF012 - pydantic copies it

    @field_validator("conditions", mode="before")
    @classmethod
    def _by_name_alone(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        plain = {name: known for name, known in given.items() if isinstance(known, str)}
        signed = {name: {"of": known.removeprefix("-"), "sign": -1 if known[:1] == "-" else 1} for name, known in plain.items()}
        return given | signed

    @model_serializer(mode="wrap")
    def _without_nothing(self, written: Callable[[Symmetry], dict[str, Any]]) -> dict[str, Any]:
        """Conditions stand in a file only where there are some: files without are what they were before there were any."""
        content = written(self)
        if not self.conditions:
            content.pop("conditions", None)
        return content

    @model_validator(mode="after")
    def _is_a_map(self) -> Symmetry:
        for what in ("axes", "fields"):
            signed = getattr(self, what)
            if sorted(map(abs, signed)) != list(range(1, len(signed) + 1)):
                raise ValueError(f"symmetries: {self.name}: {what} must hold each of 1 … {len(signed)} once, got {signed}")
        if self.axes and self.shift and len(self.axes) != len(self.shift):
            raise ValueError(f"symmetries: {self.name}: axes and shift must be of one dimension, got {self.axes}, {self.shift}")
        if not (self.axes or self.shift):
            raise ValueError(f"symmetries: {self.name}: axes, a shift or both are needed")
        if self.any_multiple and (self.axes or self.fields or not any(self.shift)):
            raise ValueError(f"symmetries: {self.name}: any_multiple is for a shift alone, which is not zero")
        if sorted(turned.of for turned in self.conditions.values()) != sorted(self.conditions):
            raise ValueError(f"symmetries: {self.name}: conditions must be made of one another, each of them once")
        changed = [name for name, turned in self.conditions.items() if turned != Turned(of=name)]
        if self.any_multiple and changed:
            raise ValueError(f"symmetries: {self.name}: under any_multiple of a shift {changed[0]} can only stay as it is")
        return self

    @property
    def dim(self) -> int:
        return len(self.axes or self.shift)

    def moved(self, points: np.ndarray, times: float = 1.0) -> np.ndarray:
        """g x for each of the points (…, dim)."""
        shift = np.asarray(self.shift or (0.0,) * self.dim) * times
        return signed_choice(points, self.axes) + shift

    def of_fields(self, names: Sequence[str], taken: Sequence[str]) -> Symmetry | None:
        """As it acts on the fields that are taken, in their order; None where it mixes them with others."""
        if not self.fields:
            return self
        sources = {name: (names[abs(code) - 1], code > 0) for name, code in zip(names, self.fields, strict=True)}
        if any(sources[name][0] not in taken for name in taken):
            return None
        codes = tuple((taken.index(source) + 1) * (1 if same else -1) for source, same in map(sources.__getitem__, taken))
        return self.model_copy(update={"fields": codes})


def signed_choice(values: np.ndarray, codes: Sequence[int]) -> np.ndarray:
    """Entry i of the last axis is entry |code i| − 1 of the values, with the sign of the code."""
    if not codes:
        return values
    return values[..., [abs(code) - 1 for code in codes]] * np.sign(codes).astype(values.dtype)


def isotropic(box: Box, num_fields: int, velocity: Sequence[int] = (), scalars: Sequence[str] = ()) -> tuple[Symmetry, ...]:
    """What an equation without a place or direction of its own has in a periodic box: all translations, reflections of the
    axes, and their permutations where the sides of the box are equal.

    Args:
        velocity: the place of each component among the fields; all others are scalars.
        scalars: names of the conditions that no symmetry changes, such as a viscosity.
    """
    dim, lower = box.dim, np.asarray(box.lower)
    same = {name: Turned(of=name) for name in scalars}
    found = [
        Symmetry(
            name=f"translation along axis {axis + 1}",
            shift=tuple(np.eye(dim)[axis].tolist()),
            any_multiple=True,
            conditions=same,
        )
        for axis in range(dim)
    ]

    def turned(name: str, axes: Sequence[int]) -> Symmetry:
        """x ↦ M x about the middle of the box, and the velocity with it."""
        middle = lower + 0.5 * (np.asarray(box.upper) - lower)
        fields = list(range(1, num_fields + 1))
        for place, code in zip(velocity, axes, strict=False):
            fields[place] = (velocity[abs(code) - 1] + 1) * (1 if code > 0 else -1)
        return Symmetry(
            name=name,
            axes=tuple(axes),
            shift=tuple((middle - signed_choice(middle, axes)).tolist()),
            fields=tuple(fields) if velocity else (),
            conditions=same,
        )

    plain = range(1, dim + 1)
    found += [turned(f"reflection of axis {axis}", [-code if code == axis else code for code in plain]) for axis in plain]
    if dim > 1 and len({float(side) for side in np.asarray(box.upper) - lower}) == 1:
        found.append(turned("axes in turn", [*plain[1:], 1]))
        if dim == 3:
            found.append(turned("two axes swapped", [2, 1, 3]))
    return tuple(found)
