"""HDF5 files whose datasets lie elsewhere, in all the ways that HDF5 has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np


def external_link(file: h5py.File, name: str, other: Path) -> None:
    file[name] = h5py.ExternalLink(other.name, name)


def soft_link(file: h5py.File, name: str, other: Path) -> None:
    file[f"{name}_outside"] = h5py.ExternalLink(other.name, name)
    file[name] = h5py.SoftLink(f"/{name}_outside")


def virtual_dataset(file: h5py.File, name: str, other: Path) -> None:
    with h5py.File(other) as source:
        layout = h5py.VirtualLayout(source[name].shape, source[name].dtype)
        layout[...] = h5py.VirtualSource(source[name])
    file.create_virtual_dataset(name, layout)


def raw_storage(file: h5py.File, name: str, other: Path) -> None:
    with h5py.File(other) as source:
        values = np.asarray(source[name])
    other.with_suffix(".raw").write_bytes(values.tobytes())
    stored = [(str(other.with_suffix(".raw")), 0, values.nbytes)]
    file.create_dataset(name, values.shape, values.dtype, external=stored)


WAYS_OUT: dict[str, Callable[[h5py.File, str, Path], None]] = {
    "is an external link to": external_link,
    "is a soft link to": soft_link,
    "is a virtual dataset": virtual_dataset,
    "has its numbers outside, in": raw_storage,
}


def lead_out(path: Path, name: str, way: str) -> None:
    """Move a dataset of a file into another one, and lead to it there."""
    other = path.with_name("other.h5")
    with h5py.File(path, "a") as file, h5py.File(other, "w") as target:
        target.require_group(str(Path(f"/{name}").parent))
        file.copy(name, target, name)
        del file[name]
    with h5py.File(path, "a") as file:
        WAYS_OUT[way](file, name, other)
