"""What VTK wrote comes back: values, meshes, times, parameters and signals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import KDTree

from calm_pde.data.readers.simulations.vtk_files import VTKFiles
from calm_pde.records.trajectory import Source
from tests.data.readers.simulations.files import FORMATS, TIMES, plane, states, temperature, velocity

pytestmark = pytest.mark.usefixtures("process")

ROUNDING = {"ensight": 1e-6, "exodus": 1e-6, "xdmf": 1e-5, "legacy text": 1e-5, "vtu text": 1e-9}
"""Points or all numbers in single precision; six digits of text."""


def write(folder: Path, name: str, mesh=None, times=TIMES, power: float = 1.0) -> None:
    folder.mkdir(parents=True)
    FORMATS[name](folder, states(plane() if mesh is None else mesh, times, power), times)


def read(path: Path, **options) -> tuple[Source, list]:
    source = VTKFiles(path=path, **options).source()
    return source, list(source.trajectories)


def triangles(cells: np.ndarray) -> set[frozenset[int]]:
    return {frozenset(map(int, cell)) for cell in cells}


@pytest.mark.parametrize("name", FORMATS)
def test_what_vtk_wrote_comes_back(tmp_path: Path, name: str) -> None:
    for power in (1, 2):
        write(tmp_path / f"run_{power}", name, power=power)
    suffix = "_n" if name == "ensight" else ""
    source, found = read(tmp_path, fields=(f"T{suffix}", f"U{suffix}"))
    about = source.description
    assert about.field_names == (f"T{suffix}", f"U{suffix}_x", f"U{suffix}_y")
    np.testing.assert_allclose(about.times, TIMES)
    mesh = plane()
    assert about.points is not None
    assert about.cells is not None
    assert about.points.shape == (mesh.n_points, 2)
    room = ROUNDING.get(name, 1e-12)
    places = np.pad(about.points, ((0, 0), (0, 1)))
    for power, trajectory in zip((1, 2), found, strict=True):
        for frame, time in enumerate(TIMES):
            wanted = np.column_stack([temperature(places, time, power), velocity(places, time)[:, :2]])
            np.testing.assert_allclose(trajectory.fields[frame], wanted, atol=10 * room)
    distance, number = KDTree(places).query(mesh.points)
    assert distance.max() <= 10 * room
    assert triangles(about.cells) == triangles(number[mesh.cells_dict[5]])
