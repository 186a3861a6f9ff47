"""What a data file says of itself: its header as JSON, the types of its arrays, its digests and its fingerprint."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

import numpy as np
from pydantic import Field as Limits
from pydantic import model_validator

from calm_pde.errors import InputError
from calm_pde.geometry import Box
from calm_pde.records.description import Description, Field, Spelling
from calm_pde.records.trajectory import Trajectory

FORMAT = "calm-pde data"
MESH = ("points", "cells", "node_type")
SIGNALS = ("signals", "signal_times")
TYPES = {"points": np.float64, "cells": np.int32, "node_type": np.int32, "parameters": np.float64}
TYPES |= dict.fromkeys(SIGNALS, np.float64)
_UNHASHED = ("versions", "created", "host")  # of the provenance: they say where a file was made, not what is in it


class Header(Spelling):
    """How a data file spells its description, in `/header`; docs/data_format.md specifies it."""

    format: Literal["calm-pde data"] = "calm-pde data"
    version: Literal[1, 2] = 1
    """2 where there is something that 1 did not know."""
    name: str
    fields: tuple[Field, ...] = Limits(min_length=1)
    lower: tuple[float, ...] = Limits(min_length=1, max_length=3)
    upper: tuple[float, ...]
    periodic: tuple[bool, ...]
    shared_mesh: bool
    arrays: tuple[str, ...] = ()
    """The mesh arrays in the file beside the points."""
    node_types: dict[int, str] = Limits(default_factory=dict)
    features: tuple[Field, ...] = ()
    targets: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    conserved: tuple[str, ...] = ()
    grid_shape: tuple[int, ...] | None = None
    provenance: dict[str, Any] = Limits(default_factory=dict)

    @model_validator(mode="after")
    def _symmetries_fit(self) -> Header:
        for symmetry in self.symmetries:
            if symmetry.dim != len(self.lower) or len(symmetry.fields) not in (0, len(self.fields)):
                raise ValueError(
                    f"symmetries: {symmetry.name}: expected {len(self.lower)} axes and, if any, {len(self.fields)} fields, "
                    f"got {symmetry.dim} and {len(symmetry.fields)}"
                )
            kinds = (self.parameters, self.signals, tuple(field.name for field in self.features))
            for name, turned in symmetry.conditions.items():
                if not any(name in names and turned.of in names for names in kinds):
                    raise ValueError(
                        f"symmetries: {symmetry.name}: {name!r} and {turned.of!r} must be names of parameters, of signals, or "
                        "of features"
                    )
        return self

    @property
    def box(self) -> Box:
        return Box(self.lower, self.upper, self.periodic)

    def written(self) -> bytes:
        """As it stands in the file."""
        return self.model_dump_json(exclude=self.unwritten).encode()

    def hashed(self) -> bytes:
        """The part that the fingerprint covers, in one fixed spelling."""
        content = self.model_dump(mode="json", exclude=self.unwritten)
        content["provenance"] = {key: value for key, value in self.provenance.items() if key not in _UNHASHED}
        return json.dumps(content, sort_keys=True).encode()


def header_of(description: Description) -> Header:
    provenance = json.loads(json.dumps(description.provenance, default=str))
    version = 2 if any((description.signals, description.units, description.prescribed, description.symmetries)) else 1
    return Header(**description.spelled, version=version, shared_mesh=description.shared_mesh, provenance=provenance)


def digest(arrays: dict[str, np.ndarray]) -> bytes:
    """SHA-256 of names, types, shapes and bytes."""
    total = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.digest()


def fingerprint(
    header: Header, times: np.ndarray, shared: dict[str, np.ndarray | None], splits: np.ndarray, digests: np.ndarray
) -> bytes:
    arrays = {name: value for name, value in shared.items() if value is not None}
    return hashlib.sha256(header.hashed() + digest(arrays | {"times": times, "split": splits, "digests": digests})).digest()


def content_of(trajectory: Trajectory) -> dict[str, np.ndarray]:
    """The arrays of a trajectory in the types they have on disk."""
    names = ("fields", "features", "parameters", *SIGNALS, *MESH)
    found = {name: typed(name, getattr(trajectory, name)) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def typed(name: str, values: np.ndarray | None) -> np.ndarray | None:
    if values is None:
        return None
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise InputError(name, expected="numbers", got=f"an array of {values.dtype}", fix="Convert it to float32 or integers.")
    kept = values.dtype if values.dtype in (np.float32, np.float64) else np.dtype(np.float32)
    return np.ascontiguousarray(values, dtype=TYPES.get(name, kept))
