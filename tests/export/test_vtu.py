"""VTU series: VTK reads every file back with equal values and geometry, and the collection with equal times."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from calm_pde.export.arrays import file_names
from calm_pde.export.vtu import write_series, write_vtu
from tests.export.meshes import KINDS, TIMES, arguments, geometry, values
from tests.export.vtk import needed, read_vtu


@pytest.mark.parametrize("kind", KINDS)
def test_vtk_reads_every_step_back(kind, tmp_path):
    given, points = values(kind), arguments()[kind]["points"]
    write_series(tmp_path / "y.pvd", geometry(kind), given, TIMES)
    files = sorted(tmp_path.glob("y_*.vtu"))
    assert [path.name for path in files] == [f"y_{step:04d}.vtu" for step in range(len(TIMES))]
    for number, path in enumerate(files):
        step = read_vtu(path)
        assert step.time == TIMES[number]
        assert step.arrays.keys() == given.keys()
        for name, rows in given.items():
            np.testing.assert_array_equal(step.arrays[name], rows if rows.ndim == 1 else rows[number])
            assert step.arrays[name].dtype == rows.dtype
        np.testing.assert_allclose(step.points[:, : points.shape[1]], points, rtol=0, atol=1e-14)
        if "cells" in arguments()[kind]:
            assert [corners for _, corners in step.cells] == arguments()[kind]["cells"].tolist()


def test_the_collection_lists_the_times(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = needed("pyvista").get_reader
    write_series(tmp_path / "a & b.pvd", geometry("triangles"), values("triangles"), TIMES)
    collection = reader(str(tmp_path / "a & b.pvd"))
    assert collection.time_values == TIMES.tolist()
    for number, time in enumerate(TIMES):
        collection.set_active_time_value(time)
        np.testing.assert_array_equal(collection.read()[0]["u"], values("triangles")["u"][number])


def test_names_of_any_kind_survive(tmp_path):
    names = file_names(["<script>\"'&", "a/b", "ζ", "\x07"])
    write_vtu(tmp_path / "y.vtu", geometry("triangles"), {name: np.full(30, 1.0) for name in names})
    assert read_vtu(tmp_path / "y.vtu").arrays.keys() == set(names)
