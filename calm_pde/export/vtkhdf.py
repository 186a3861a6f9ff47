"""VTKHDF, one HDF5 file with geometry stored once and values per step (VTK's file format 2.0), by h5py alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from calm_pde.errors import FileError
from calm_pde.export.arrays import check_arrays
from calm_pde.export.cells import Geometry, Image, Unstructured
from calm_pde.files.atomic import replacing
from calm_pde.files.links import own


def write_vtkhdf(
    path: Path,
    geometry: Geometry,
    arrays: dict[str, np.ndarray],
    times: Sequence[float] | np.ndarray | None = None,
    *,
    notes: dict[str, np.ndarray] | None = None,
    overwrite: bool = False,
) -> None:
    """A whole file or none.

    Args:
        arrays: (time, point), or (point,) for what stays the same.
        times: without them the file has no time; a single one, which VTK would not read as a step, is noted as `TimeValue`.
        notes: numbers that belong to no point.
    """
    check_arrays(arrays, geometry.num_points, None if times is None else len(times))
    if times is not None and len(times) == 1:
        arrays = {name: values.reshape(-1) for name, values in arrays.items()}
        notes = (notes or {}) | {"TimeValue": np.asarray(times, dtype=np.float64)}
        times = None
    with replacing(path, overwrite) as part, h5py.File(part, "w") as file:
        root = file.create_group("VTKHDF")
        root.attrs["Version"] = np.array([2, 0])
        count = 0 if times is None else len(times)
        steps = None if times is None else _steps(root, np.asarray(times, dtype=np.float64))
        if isinstance(geometry, Image):
            _image(root, geometry)
        else:
            _unstructured(root, geometry)
            if steps is not None:
                _same_geometry(steps, count)
        for name, values in arrays.items():
            moving = values.ndim == 2
            if isinstance(geometry, Image):
                content, stride = geometry.volumes(values if moving or steps is None else values[None]), 1
            else:
                content, stride = values.ravel(), geometry.num_points
            root.create_dataset(f"PointData/{name}", data=np.ascontiguousarray(content))
            if steps is not None:
                steps[f"PointDataOffsets/{name}"] = stride * moving * np.arange(count, dtype=np.int64)
        for name, values in (notes or {}).items():
            root[f"FieldData/{name}"] = values


def _steps(root: h5py.Group, times: np.ndarray) -> h5py.Group:
    steps = root.create_group("Steps")
    steps.attrs["NSteps"] = len(times)
    steps["Values"] = times
    return steps


def _image(root: h5py.Group, image: Image) -> None:
    missing = 3 - len(image.shape)
    shape = (*image.shape, *(1,) * missing)
    root.attrs["Type"] = np.bytes_("ImageData")
    root.attrs["WholeExtent"] = np.array([[0, size - 1] for size in shape]).ravel()
    root.attrs["Origin"] = np.array([*image.origin, *(0.0,) * missing])
    root.attrs["Spacing"] = np.array([*image.spacing, *(1.0,) * missing])
    root.attrs["Direction"] = np.eye(3).ravel()


def _unstructured(root: h5py.Group, mesh: Unstructured) -> None:
    root.attrs["Type"] = np.bytes_("UnstructuredGrid")
    root["Points"], root["Connectivity"] = mesh.points, mesh.connectivity
    root["Offsets"], root["Types"] = mesh.offsets, mesh.types
    for name, values in (("Points", mesh.points), ("Cells", mesh.types), ("ConnectivityIds", mesh.connectivity)):
        root[f"NumberOf{name}"] = np.array([len(values)])


def _same_geometry(steps: h5py.Group, count: int) -> None:
    """Every step begins at the start of the one part that is stored."""
    steps["NumberOfParts"] = np.ones(count, dtype=np.int64)
    for name, shape in {"Part": (count,), "Point": (count,), "Cell": (count, 1), "ConnectivityId": (count, 1)}.items():
        steps[f"{name}Offsets"] = np.zeros(shape, dtype=np.int64)


def read_vtkhdf(path: Path) -> tuple[np.ndarray, list[tuple[int, np.ndarray]]]:
    """Points (point, 3) and blocks of cells (type, (cell, corner)) of an unstructured file with one part."""
    fix = "Give a file that `calm predict` wrote, or save the mesh as .vtu."
    try:
        with h5py.File(path, "r") as file:
            root: Any = _entry(path, file, "VTKHDF")
            kind = root.attrs["Type"]
            if kind not in (b"UnstructuredGrid", "UnstructuredGrid") or _entry(path, root, "NumberOfPoints").shape != (1,):
                raise FileError(path, "holds no unstructured mesh of one part", fix=fix)
            names = ("Points", "Offsets", "Connectivity", "Types")
            points, offsets, connectivity, types = (_entry(path, root, name)[()] for name in names)
        sizes, blocks = np.diff(offsets), []
        for kind, size in np.unique(np.stack([types, sizes], axis=-1), axis=0):
            starts = offsets[:-1][(types == kind) & (sizes == size)]
            blocks.append((int(kind), connectivity[starts[:, None] + np.arange(size)]))
        return points, blocks
    except FileError:
        raise
    except Exception as error:
        raise FileError(path, f"not a readable VTKHDF file ({error})", fix=fix) from error


def _entry(path: Path, group: h5py.Group, name: str) -> Any:
    found = own(path, group, name)
    if found is None:
        raise KeyError(name)
    return found
