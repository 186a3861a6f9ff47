"""Samples as files: one per sample by its number, in the format of the ending, and one with the learned query points."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calm_pde.errors import InputError
from calm_pde.export.arrays import file_names
from calm_pde.export.cells import Geometry, geometry_of, vertices
from calm_pde.export.vtkhdf import write_vtkhdf
from calm_pde.export.vtu import series_paths, write_series, write_vtu
from calm_pde.records.description import Description
from calm_pde.records.trajectory import Trajectory

ENDINGS = (".vtkhdf", ".vtu")


def sample_paths(out: Path, number: int, num_steps: int) -> list[Path]:
    """All files of one sample, first the one to open: y.vtkhdf ─▶ y_0003.vtkhdf, y.vtu ─▶ y_0003.pvd, y_0003_0000.vtu, …."""
    if out.suffix == ".vtkhdf":
        return [out.with_name(f"{out.stem}_{number:04d}.vtkhdf")]
    collection = out.with_name(f"{out.stem}_{number:04d}.pvd")
    return [collection, *series_paths(collection, num_steps)]


def layers_path(out: Path) -> Path:
    return out.with_name(f"{out.stem}_queries{out.suffix}")


def sample_geometry(description: Description, trajectory: Trajectory) -> Geometry:
    """The mesh that a trajectory lives on, its own or the shared one."""
    mesh = trajectory if description.points is None else description
    if mesh.points is None:
        raise InputError("points", expected="some", got="none", fix="Put them into the description or the trajectory.")
    return geometry_of(mesh.points, mesh.cells, description.grid_shape)


def write_sample(
    out: Path,
    number: int,
    geometry: Geometry,
    arrays: dict[str, np.ndarray],
    times: np.ndarray,
    overwrite: bool = False,
) -> Path:
    """One sample with all its steps; what to open is returned."""
    path = sample_paths(out, number, len(times))[0]
    if out.suffix == ".vtkhdf":
        write_vtkhdf(path, geometry, arrays, times, overwrite=overwrite)
    else:
        write_series(path, geometry, arrays, times, overwrite)
    return path


def write_layers(out: Path, layers: dict[str, np.ndarray], overwrite: bool = False) -> Path:
    """The query points (query, dim) of all layers as one cloud, with the number of each point's layer as `layer`.

    Numbers follow the order of `layers`; a VTKHDF file also has each layer's number as field data under its name.
    """
    path = layers_path(out)
    cloud = vertices(np.concatenate(list(layers.values())))
    numbers = np.repeat(np.arange(len(layers), dtype=np.int32), [len(points) for points in layers.values()])
    if out.suffix == ".vtkhdf":
        notes = {name: np.array([place], dtype=np.int32) for place, name in enumerate(file_names(list(layers)))}
        write_vtkhdf(path, cloud, {"layer": numbers}, notes=notes, overwrite=overwrite)
    else:
        write_vtu(path, cloud, {"layer": numbers}, overwrite=overwrite)
    return path
