"""What The Well's specification says of one HDF5 file: its grid, boundaries, fields and scalars."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calm_pde.data.readers.stored import StoredArray, hdf5_array, hdf5_attributes, hdf5_group, hdf5_names
from calm_pde.errors import FileError
from calm_pde.geometry import Box


@dataclass(frozen=True)
class Channels:
    """One stored field: the names of its components, and whether it varies along (sample, time, x, …)."""

    array: StoredArray
    names: tuple[str, ...]
    varies: tuple[bool, ...]

    def read(self, sample: int, lengths: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        """(time, point, component), repeated along what it does not vary along; lengths and strides of (time, x, …)."""
        part = self.array.read(sample if self.varies[0] else ...)
        for axis, varying in enumerate(self.varies[1:]):
            part = part if varying else np.expand_dims(part, axis)
        part = part[tuple(slice(None, None, stride) for stride in strides)]
        part = part.reshape(*part.shape[: len(lengths)], len(self.names))
        return np.broadcast_to(part, (*lengths, len(self.names))).reshape(lengths[0], -1, len(self.names))


@dataclass(frozen=True)
class Layout:
    """The content of an open file; all but the number of trajectories and the values must be the same across a set."""

    name: str
    count: int
    times: np.ndarray
    axes: dict[str, np.ndarray]
    periodic: tuple[bool, ...]
    channels: tuple[Channels, ...]
    scalars: dict[str, np.ndarray]

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(name for channels in self.channels for name in channels.names)

    @property
    def box(self) -> Box:
        """From the first point to the last, and one spacing further where the axis is periodic: L = n·dx."""
        upper = []
        for axis, periodic in zip(self.axes.values(), self.periodic, strict=True):
            spacing = float(axis[-1] - axis[0]) / (len(axis) - 1)
            upper.append(float(axis[-1]) + (spacing if periodic else 0.0))
        return Box([float(axis[0]) for axis in self.axes.values()], upper, self.periodic)

    def difference(self, other: Layout) -> str:
        """What another file of the same set has different, empty if nothing."""
        pairs: dict[str, tuple[Any, Any]] = {
            "axes": (list(self.axes), list(other.axes)),
            "periodic axes": (self.periodic, other.periodic),
            "fields": (self.fields, other.fields),
            "scalars": (list(self.scalars), list(other.scalars)),
        }
        for what, (mine, others) in pairs.items():
            if mine != others:
                return f"{what}: {others} instead of {mine}"
        for what, axis in {**self.axes, "time": self.times}.items():
            if not np.array_equal(axis, {**other.axes, "time": other.times}[what]):
                return f"the coordinate '{what}'"
        return ""


def read_layout(path: Path, file: h5py.File, skip: tuple[str, ...]) -> Layout:
    """The layout of a file, checked against the specification; fields and scalars in `skip` are left out."""
    facts = hdf5_attributes(path, file)
    if facts.get("grid_type") != "cartesian":
        problem = f"expected grid_type 'cartesian', got {facts.get('grid_type')!r}"
        raise FileError(path, problem, fix="Only Cartesian grids in the layout of The Well are read.")
    count, dim = (_whole_number(path, facts, name) for name in ("n_trajectories", "n_spatial_dims"))
    dimensions = hdf5_group(path, file, "dimensions")
    names = _names(path, dimensions, "spatial_dims")
    if len(names) != dim or not 1 <= dim <= 3:
        raise FileError(path, f"expected {dim} names (1 to 3), got {names}", part="attribute 'spatial_dims'")
    times = _fixed(path, dimensions, "time").increasing()
    axes = {name: _axis(_fixed(path, dimensions, name)) for name in names}
    shape = {"sample": count, "time": len(times), **{name: len(axis) for name, axis in axes.items()}}
    return Layout(
        name=str(facts.get("dataset_name", path.stem)),
        count=count,
        times=times,
        axes=axes,
        periodic=_periodic(path, file, names),
        channels=_all_channels(path, file, shape, skip),
        scalars=_scalars(path, file, count, skip),
    )


def _fixed(path: Path, dimensions: h5py.Group, name: str) -> StoredArray:
    """A coordinate that is the same for all trajectories and times."""
    stored = hdf5_array(path, dimensions, name)
    facts = stored.attributes()
    if facts.get("sample_varying") or facts.get("time_varying"):
        raise FileError(path, "varies between trajectories or times", part=stored.name, fix="Only fixed grids are read.")
    return stored


def _axis(stored: StoredArray) -> np.ndarray:
    return stored.uniform(len(stored.increasing()))


def _all_channels(path: Path, file: h5py.File, shape: dict[str, int], skip: tuple[str, ...]) -> tuple[Channels, ...]:
    """The fields in the order of the file: scalars, then vectors, then tensors."""
    found = []
    for order in range(3):
        if f"t{order}_fields" in hdf5_names(path, file):
            group = hdf5_group(path, file, f"t{order}_fields")
            kept = [name for name in _names(path, group, "field_names") if name not in skip]
            found.extend(_channels(hdf5_array(path, group, name), name, order, shape) for name in kept)
    if not found:
        raise FileError(path, "holds no field to read", part="groups 't0_fields' to 't2_fields'", fix="Check --skip.")
    return tuple(found)


def _channels(stored: StoredArray, name: str, order: int, shape: dict[str, int]) -> Channels:
    """A field of tensor order 0, 1 or 2; axes that it does not vary along are absent from its dataset."""
    axes = list(shape)[2:]
    facts = stored.attributes()
    along = facts.get("dim_varying", [True] * len(axes))
    if not isinstance(along, list) or len(along) != len(axes):
        raise FileError(stored.path, f"expected {len(axes)} flags 'dim_varying', got {along!r}", part=stored.name)
    varies = tuple(map(bool, (facts.get("sample_varying", True), facts.get("time_varying", True), *along)))
    present = {axis: length for (axis, length), varying in zip(shape.items(), varies, strict=True) if varying}
    components = {f"component {place + 1}": len(axes) for place in range(order)}
    names = tuple("_".join((name, *component)) for component in itertools.product(axes, repeat=order))
    return Channels(stored.expect({**present, **components}), names, varies)


def _scalars(path: Path, file: h5py.File, count: int, skip: tuple[str, ...]) -> dict[str, np.ndarray]:
    """(sample,) of every scalar."""
    if "scalars" not in hdf5_names(path, file):
        return {}
    group, found = hdf5_group(path, file, "scalars"), {}
    for name in _names(path, group, "field_names"):
        if name in skip:
            continue
        stored = hdf5_array(path, group, name)
        facts = stored.attributes()
        values = stored.read().ravel()
        if facts.get("time_varying") or len(values) != (count if facts.get("sample_varying") else 1):
            problem = f"expected one number, or one per trajectory, constant in time; got shape {stored.shape}"
            raise FileError(path, problem, part=f"scalar '{name}'", fix=f"Leave it out with --skip {name}.")
        found[name] = np.broadcast_to(values, (count,))
    return found


def _periodic(path: Path, file: h5py.File, axes: list[str]) -> tuple[bool, ...]:
    """Which axes have a periodic boundary condition; every axis must have one, and of one kind."""
    group = hdf5_group(path, file, "boundary_conditions")
    told: dict[str, set[bool]] = {axis: set() for axis in axes}
    for name in hdf5_names(path, group):
        condition = hdf5_group(path, group, name)
        condition_type = hdf5_attributes(path, condition).get("bc_type")
        if not isinstance(condition_type, str):
            raise FileError(path, f"expected a name 'bc_type', got {condition_type!r}", part=f"boundary condition '{name}'")
        for axis in _names(path, condition, "associated_dims"):
            told.setdefault(axis, set()).add(condition_type.lower() == "periodic")
    for axis in axes:
        if len(told[axis]) != 1:
            problem = "is told to be both periodic and not" if told[axis] else "has no boundary condition"
            raise FileError(path, problem, part=f"axis '{axis}'", fix="Its periodicity cannot be guessed.")
    return tuple(told[axis] == {True} for axis in axes)


def _names(path: Path, group: h5py.Group, attribute: str) -> list[str]:
    names = hdf5_attributes(path, group).get(attribute)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FileError(path, f"expected a list of names, got {names!r}", part=f"attribute '{attribute}' of '{group.name}'")
    return names


def _whole_number(path: Path, facts: dict[str, Any], name: str) -> int:
    value = facts.get(name)
    if not isinstance(value, int) or value < 1:
        raise FileError(path, f"expected a positive whole number, got {value!r}", part=f"attribute '{name}'")
    return value
