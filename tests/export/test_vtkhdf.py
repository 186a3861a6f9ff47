"""VTKHDF: VTK reads every step back with equal values, geometry and times."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from calm_pde.errors import FileError, InputError
from calm_pde.export.arrays import file_names
from calm_pde.export.cells import Image
from calm_pde.export.vtkhdf import read_vtkhdf, write_vtkhdf
from tests.export.meshes import KINDS, TIMES, arguments, geometry, in_file_order, values
from tests.export.vtk import read_steps
from tests.files.links import WAYS_OUT, lead_out


@pytest.mark.parametrize("kind", KINDS)
def test_vtk_reads_every_step_back(kind, tmp_path):
    path, given = tmp_path / "y.vtkhdf", values(kind)
    write_vtkhdf(path, geometry(kind), given, TIMES)
    found = read_steps(path)
    assert [step.time for step in found] == TIMES.tolist()
    points = arguments()[kind]["points"]
    for number, step in enumerate(found):
        assert step.arrays.keys() == given.keys()
        for name, rows in given.items():
            row = rows if rows.ndim == 1 else rows[number]
            np.testing.assert_array_equal(step.arrays[name], in_file_order(kind, row))
            assert step.arrays[name].dtype == rows.dtype
        expected = np.stack([in_file_order(kind, column) for column in points.T], axis=-1)
        np.testing.assert_allclose(step.points[:, : points.shape[1]], expected, rtol=0, atol=1e-15 * (kind[:5] == "image") * 8)
        assert not step.points[:, points.shape[1] :].any()
        if "cells" in arguments()[kind]:
            cells = arguments()[kind]["cells"]
            assert step.cells == [({3: 5, 4: 10}[cells.shape[1]], corners) for corners in cells.tolist()]
        elif kind.startswith("points"):
            assert step.cells == [(1, [place]) for place in range(len(points))]


def test_geometry_is_stored_once(tmp_path):
    sizes = []
    for count in (1, 101):
        path = tmp_path / f"{count}.vtkhdf"
        write_vtkhdf(path, geometry("tetrahedra"), {"u": np.zeros((count, 30), np.float32)}, np.arange(float(count)))
        sizes.append(path.stat().st_size)
    with h5py.File(tmp_path / "101.vtkhdf") as file:
        assert file["VTKHDF/Points"].shape == (30, 3)
        assert file["VTKHDF/PointData/u"].shape == (3030,)
    assert sizes[1] - sizes[0] < 100 * (30 * 4 + 8 * 8) + 4096  # values, time and seven offsets of each step, and HDF5's own


def test_a_single_step_and_none(tmp_path):
    """VTK takes a file with one step for one without time, and then fails on images with an axis for it."""
    for kind in ("image 2-D", "image 3-D", "triangles"):
        row = values(kind)["u"][:1]
        write_vtkhdf(tmp_path / "one.vtkhdf", geometry(kind), {"u": row}, [0.7], overwrite=True)
        write_vtkhdf(tmp_path / "none.vtkhdf", geometry(kind), {"u": row[0]}, overwrite=True)
        for name, notes in (("one", {"TimeValue": 0.7}), ("none", {})):
            (step,) = read_steps(tmp_path / f"{name}.vtkhdf")
            assert step.notes == notes
            np.testing.assert_array_equal(step.arrays["u"], in_file_order(kind, row[0]))


def test_names_of_any_kind_survive(tmp_path):
    names = file_names(["<script>alert('\"&')</script>", "a/b", "a_b", "..", "ζ.x", "tab\there", "x\x00"])
    assert names == ["<script>alert('\"&')<_script>", "a_b", "a_b_2", "_", "ζ.x", "tab_here", "x_"]
    rows = {name: np.full((1, 30), place, np.float32) for place, name in enumerate(names)}
    write_vtkhdf(tmp_path / "y.vtkhdf", geometry("points 2-D"), rows, [0.0])
    (step,) = read_steps(tmp_path / "y.vtkhdf")
    assert {name: row[0] for name, row in step.arrays.items()} == {name: place for place, name in enumerate(names)}


def test_what_does_not_fit_is_refused(tmp_path):
    path, mesh = tmp_path / "y.vtkhdf", geometry("points 2-D")
    for arrays, message in (
        ({"u": np.zeros((3, 30))}, r"arrays\['u'\]: expected \(30,\) or \(4, 30\), got \(3, 30\)"),
        ({"u": np.zeros(29)}, r"got \(29,\)"),
        ({"u/v": np.zeros(30)}, "expected a name like 'u_v'"),
        ({"u": np.zeros(30, dtype=complex)}, "expected float32, .* got complex128"),
    ):
        with pytest.raises(InputError, match=message):
            write_vtkhdf(path, mesh, arrays, TIMES)
    assert not list(tmp_path.iterdir())
    write_vtkhdf(path, mesh, {})
    with pytest.raises(FileError, match="exists already"):
        write_vtkhdf(path, mesh, {})


@pytest.mark.parametrize("kind", ["triangles", "tetrahedra", "bent grid", "points 2-D"])
def test_our_files_are_read_as_meshes(kind, tmp_path):
    mesh = geometry(kind)
    assert not isinstance(mesh, Image)
    write_vtkhdf(tmp_path / "y.vtkhdf", mesh, values(kind), TIMES)
    points, ((code, cells),) = read_vtkhdf(tmp_path / "y.vtkhdf")
    np.testing.assert_array_equal(points, mesh.points)
    np.testing.assert_array_equal(cells.ravel(), mesh.connectivity)
    assert set(mesh.types) == {code}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_mesh_in_another_file_is_not_followed(way, tmp_path):
    write_vtkhdf(tmp_path / "y.vtkhdf", geometry("triangles"), {})
    lead_out(tmp_path / "y.vtkhdf", "VTKHDF/Points", way)
    with pytest.raises(FileError, match=rf"y\.vtkhdf, Points: {way}"):
        read_vtkhdf(tmp_path / "y.vtkhdf")
