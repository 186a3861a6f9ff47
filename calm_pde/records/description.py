"""What a data set is, beside its trajectories: the one record of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from calm_pde.config import Config
from calm_pde.geometry import Box, periodic_axes
from calm_pde.notebook import html_table
from calm_pde.records.symmetry import Symmetry

_NOT_ALIKE = ("box", "times", "points", "cells", "node_type", "provenance")  # of a description, in the files that spell it


class Field(Config):
    """A named quantity at every point."""

    name: str
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.name} [{self.unit}]" if self.unit else self.name


class Prescribed(Config):
    """A field that is known in advance at all times where points have one of these node types, and so given, not predicted."""

    field: str
    node_types: tuple[int, ...] = ()
    """Everywhere where none is named."""


class Spelling(Config):
    """A description as a file says it; of the names that came after the first files it tells only where there are some."""

    signals: tuple[str, ...] = ()
    units: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    prescribed: tuple[Prescribed, ...] = ()
    symmetries: tuple[Symmetry, ...] = ()

    @property
    def unwritten(self) -> set[str]:
        """Those of them that are empty."""
        return {name for name in Spelling.model_fields if not getattr(self, name)}

    def described(self, box: Box, times: np.ndarray, **more: Any) -> Description:
        """What is spelled; box, times and mesh stand in each file in its own way."""
        alike = {part.name: getattr(self, part.name) for part in fields(Description) if part.name not in _NOT_ALIKE}
        return Description(box=box, times=times, **alike, **more)


@dataclass(frozen=True, repr=False)
class Description:
    """Everything of a data set but its trajectories: the one record, in a data file, a data set, a surrogate and a report.

    Files spell it in their own way, and become one as they are read.

    Args:
        name: empty where an old surrogate folder does not tell it.
        times: (time,) physical and strictly increasing; one entry for a steady problem.
        points: (point, dim) physical, where one mesh serves all; None where every trajectory brings its own.
        cells: (cell, corner) of the shared mesh, where known.
        node_type: (point,) codes of the shared mesh, where known.
        node_types: the name of each code.
        features: what is given at each point and does not change in time.
        targets: the fields that a model learns by default; empty for all.
        parameters: names of the numbers that differ from trajectory to trajectory.
        signals: names of the numbers that differ from trajectory to trajectory and change in time.
        units: of parameters and signals by name, where they have one.
        prescribed: which fields are known in advance at all times, and where, so that they are given and not predicted.
        symmetries: the maps that turn every solution into another one.
        conserved: fields whose integral over the domain stays constant.
        grid_shape: the axes of a structured mesh whose points come in row-major order.
        provenance: where what it stands in is from: of data the solver or source, settings, seed, versions; of a surrogate the
            recipe, the fingerprint of its data, seed, versions.
    """

    name: str
    fields: tuple[Field, ...]
    box: Box
    times: np.ndarray
    points: np.ndarray | None = None
    cells: np.ndarray | None = None
    node_type: np.ndarray | None = None
    node_types: dict[int, str] = field(default_factory=dict)
    features: tuple[Field, ...] = ()
    targets: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    units: dict[str, str] = field(default_factory=dict)
    prescribed: tuple[Prescribed, ...] = ()
    symmetries: tuple[Symmetry, ...] = ()
    conserved: tuple[str, ...] = ()
    grid_shape: tuple[int, ...] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Description({self.name}: {'; '.join(f'{what} {words}' for what, words in self.rows.items() if words)})"

    def _repr_html_(self) -> str:
        return html_table(self.name or "Description", self.rows)

    @property
    def rows(self) -> dict[str, object]:
        """What there is to tell of it, in words."""
        units = {name: f"{name} [{unit}]" for name, unit in self.units.items()}
        return {
            "fields": ", ".join(map(str, self.fields)),
            "targets": ", ".join(self.targets),
            "parameters": ", ".join(units.get(name, name) for name in self.parameters),
            "signals": ", ".join(units.get(name, name) for name in self.signals),
            "features": ", ".join(map(str, self.features)),
            "prescribed": ", ".join(known.field for known in self.prescribed),
            "box": f"{self.box.lower} to {self.box.upper}, periodic {self.periodic}",
            "mesh": f"{len(self.points):,} points shared by all" if self.points is not None else "each its own",
            "times": "steady" if self.steady else f"{len(self.times)} frames from {self.times[0]:g} to {self.times[-1]:g}",
            "node types": ", ".join(self.node_types.values()),
            "symmetries": ", ".join(symmetry.name for symmetry in self.symmetries),
        }

    @property
    def steady(self) -> bool:
        return len(self.times) == 1

    @property
    def shared_mesh(self) -> bool:
        return self.points is not None

    @property
    def periodic(self) -> tuple[bool, ...]:
        """One flag per axis of the box."""
        return periodic_axes(self.box.periodic, self.box.dim)

    @property
    def field_names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def conditions(self) -> dict[str, tuple[str, ...]]:
        """Names of parameters, signals and features."""
        features = tuple(field.name for field in self.features)
        return {"parameters": self.parameters, "signals": self.signals, "features": features}

    @property
    def spacing(self) -> float:
        """The length of one frame: the median difference of the times; 1 for a steady problem."""
        return 1.0 if self.steady else float(np.median(np.diff(self.times)))

    @property
    def spelled(self) -> dict[str, Any]:
        """What all files say of it in the same words, and its box by the corners."""
        alike = {name: value for name, value in vars(self).items() if name not in _NOT_ALIKE}
        return alike | {"lower": tuple(self.box.lower), "upper": tuple(self.box.upper), "periodic": self.periodic}

    def told(self, names: Sequence[str]) -> Description:
        """The data set with those of its parameters, signals and features alone that are named."""
        return replace(
            self,
            parameters=tuple(name for name in self.parameters if name in names),
            signals=tuple(name for name in self.signals if name in names),
            features=tuple(field for field in self.features if field.name in names),
        )

    def of(self, names: Sequence[str], frame_stride: int = 1) -> Description:
        """The part of the data set with these fields, in this order, all of them targets, and every so many-th frame."""
        places = [self.field_names.index(name) for name in names]
        return replace(
            self,
            fields=tuple(self.fields[place] for place in places),
            targets=(),
            prescribed=tuple(known for known in self.prescribed if known.field in names),
            conserved=tuple(name for name in self.conserved if name in names),
            symmetries=tuple(
                found for found in (symmetry.of_fields(self.field_names, names) for symmetry in self.symmetries) if found
            ),
            times=self.times[::frame_stride],
        )
