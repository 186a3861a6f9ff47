"""Numeric arrays inside HDF5 and .npy files: found, checked, and read part by part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.lib.format import open_memmap

from calm_pde.data.readers.base import DOWNLOAD_AGAIN, damage_named, existing_file, looks_like
from calm_pde.errors import FileError
from calm_pde.files.links import own

_UNIFORM = 1e-2  # of a spacing: what rounding to float32 may move a coordinate of a fine grid


@dataclass(frozen=True)
class StoredArray:
    """An array that stays in its file until a part of it is asked for; `name` tells which one in messages."""

    path: Path
    name: str
    values: h5py.Dataset | np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    def expect(self, axes: Mapping[str, int | None]) -> StoredArray:
        """Itself, where it has these axes; None allows any length."""
        lengths = tuple(axes.values())
        fits = len(self.shape) == len(lengths) and all(
            have > 0 if want is None else have == want for have, want in zip(self.shape, lengths, strict=True)
        )
        if not fits:
            named = ", ".join(name if length is None else f"{name}={length}" for name, length in axes.items())
            raise FileError(
                self.path,
                f"expected axes ({named}), got shape {self.shape}",
                part=self.name,
                fix="Check that this is the published file, and of this kind.",
            )
        return self

    def read(self, index: Any = ...) -> np.ndarray:
        """A part in memory, as float32 or float64."""
        with damage_named(self.path, self.name):
            mapped = isinstance(self.values, np.memmap)  # opened anew for each part: a map counts as memory page by page
            part = np.asarray((open_memmap(self.path, mode="r") if mapped else self.values)[index])
            narrow = part.dtype.kind == "f" and part.dtype.itemsize <= 4
            return part.astype(np.float32 if narrow else np.float64, copy=mapped)

    def attributes(self) -> dict[str, Any]:
        return hdf5_attributes(self.path, self.values) if isinstance(self.values, h5py.Dataset) else {}

    def increasing(self) -> np.ndarray:
        """The whole of a coordinate, in float64."""
        axis = self.expect({"entry": None}).read().astype(np.float64)
        if not np.isfinite(axis).all() or (np.diff(axis) <= 0).any():
            raise FileError(self.path, "expected finite, increasing numbers", part=self.name, fix=DOWNLOAD_AGAIN)
        return axis

    def uniform(self, count: int) -> np.ndarray:
        """The coordinates of `count` ≥ 2 equally spaced points."""
        axis = self.expect({"point": count}).increasing()
        if count < 2:
            raise FileError(self.path, "expected at least 2 points on every axis, got 1", part=self.name)
        spacing = (axis[-1] - axis[0]) / (count - 1)
        if np.abs(np.diff(axis) - spacing).max() > _UNIFORM * spacing:
            raise FileError(
                self.path,
                "expected equally spaced coordinates",
                part=self.name,
                fix="Only uniform grids are read; pass others as arrays with their points.",
            )
        return axis


@contextmanager
def opened_hdf5(path: Path) -> Iterator[h5py.File]:
    """The file, read-only, closed afterwards."""
    existing_file(path)
    try:
        file = h5py.File(path, "r")
    except Exception as error:  # OSError mostly; the kinds of damage are many
        kind = looks_like(path)
        problem = f"is damaged or incomplete ({error})" if kind == "an HDF5 file" else f"is not an HDF5 file but {kind}"
        raise FileError(path, problem, fix=DOWNLOAD_AGAIN) from None
    with file:
        yield file


def hdf5_names(path: Path, group: h5py.Group) -> list[str]:
    """What a group holds."""
    with damage_named(path, f"group '{group.name}'"):
        return [str(name) for name in group]


def hdf5_group(path: Path, parent: h5py.Group, name: str) -> h5py.Group:
    part = f"group '{name}'"
    with damage_named(path, part):
        found = own(path, parent, name)
    if not isinstance(found, h5py.Group):
        known = ", ".join(hdf5_names(path, parent)) or "nothing"
        raise FileError(path, f"there is none; {parent.name} holds {known}", part=part, fix="Check the kind of the file.")
    return found


def hdf5_array(path: Path, group: h5py.Group, name: str) -> StoredArray:
    """A numeric dataset that was written completely."""
    part = f"dataset '{name}'"
    with damage_named(path, part):
        found = own(path, group, name)
        if not isinstance(found, h5py.Dataset):
            known = ", ".join(hdf5_names(path, group)) or "nothing"
            raise FileError(path, f"there is none; {group.name} holds {known}", part=part, fix="Check the kind of the file.")
        if found.dtype.kind not in "fiu":
            raise FileError(path, f"expected numbers, got {found.dtype}", part=part)
        if not _written(found):
            raise FileError(path, "was never written completely", part=part, fix=DOWNLOAD_AGAIN)
        return StoredArray(path, part, found)


def _written(dataset: h5py.Dataset) -> bool:
    """Whether every part has a place in the file; HDF5 would answer zeros for one that has none."""
    if dataset.chunks is None or dataset.size == 0:
        return dataset.size == 0 or dataset.id.get_storage_size() > 0
    expected = math.prod(-(-length // chunk) for length, chunk in zip(dataset.shape, dataset.chunks, strict=True))
    return dataset.id.get_num_chunks() >= expected


def hdf5_attributes(path: Path, node: h5py.Group | h5py.Dataset) -> dict[str, Any]:
    """The attributes as plain numbers, strings and lists of them."""
    with damage_named(path, f"attributes of '{node.name}'"):
        return {str(key): _plain(value) for key, value in node.attrs.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | list):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def npy_array(path: Path) -> StoredArray:
    """A numeric .npy file, mapped into memory; one that would have to run code to be read is refused."""
    existing_file(path)
    kind = looks_like(path)
    if kind != "a .npy array":
        raise FileError(path, f"is not a .npy array but {kind}", fix=DOWNLOAD_AGAIN)
    with damage_named(path):
        values = open_memmap(path, mode="r")
    if values.dtype.kind not in "fiu":
        raise FileError(path, f"expected numbers, got {values.dtype}")
    return StoredArray(path, "", values)
