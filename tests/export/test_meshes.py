"""Users' meshes: points and cells come through, planes are found in space, and what is no mesh gets a clear error."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from calm_pde.errors import FileError
from calm_pde.export import meshes
from calm_pde.export.cells import geometry_of, unstructured
from calm_pde.export.meshes import read_mesh
from calm_pde.export.vtkhdf import write_vtkhdf
from calm_pde.export.vtu import write_vtu
from tests.export.meshes import TIMES, arguments, geometry, values
from tests.export.vtk import needed, read_vtu

SQUARE = np.array([[0.0, 0.0, 0.25], [1.0, 0.0, 0.25], [1.0, 1.0, 0.25], [0.0, 1.0, 0.25]])
TRIANGLES = np.array([[0, 1, 2], [0, 2, 3]])
PRISM = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1]])


@pytest.fixture
def square(tmp_path):
    """A square in the plane z = ¼, as the reader's own writer makes it, with a boundary."""
    lines = np.array([[0, 1], [1, 2]])

    def written(name, **options):
        mesh = needed("meshlane").Mesh(SQUARE, [("line", lines), ("triangle", TRIANGLES)])
        mesh.write(tmp_path / name, **options)
        return tmp_path / name

    return written


@pytest.mark.parametrize("name", ["a.vtu", "a.vtk", "a.msh", "a.xdmf", "mesh.of.mine.vtu"])
def test_formats(square, name):
    found = read_mesh(square(name, file_format="gmsh22") if name.endswith("msh") else square(name), 2)
    np.testing.assert_array_equal(found.points, SQUARE[:, :2])
    np.testing.assert_array_equal(found.geometry.points, SQUARE)
    np.testing.assert_array_equal(found.geometry.types, [3, 3, 5, 5])
    np.testing.assert_array_equal(found.geometry.connectivity[4:], TRIANGLES.ravel())
    np.testing.assert_array_equal(found.cells, TRIANGLES)


def test_a_surface(tmp_path):
    needed("meshlane").Mesh(PRISM, [("triangle", np.array([[0, 1, 2], [3, 4, 5]]))]).write(tmp_path / "a.stl", binary=True)
    found = read_mesh(tmp_path / "a.stl", 3)
    assert set(map(tuple, found.points)) == set(map(tuple, PRISM))
    np.testing.assert_array_equal(found.geometry.types, [5, 5])


@pytest.mark.parametrize("kind", ["triangles", "tetrahedra", "image 2-D", "bent grid", "points 3-D"])
@pytest.mark.parametrize("ending", ["vtu", "vtkhdf"])
def test_our_own_files(kind, ending, tmp_path):
    needed("meshlane")
    mesh, points = geometry(kind), arguments()[kind]["points"]
    path = tmp_path / f"y.{ending}"
    if ending == "vtu":
        write_vtu(path, mesh, {"u": values(kind)["u"][0]}, 0.5)
    else:
        write_vtkhdf(path, mesh, values(kind), TIMES)
        if kind.startswith("image"):
            with pytest.raises(FileError, match="holds no unstructured mesh of one part"):
                read_mesh(path, points.shape[1])
            return
    found = read_mesh(path, points.shape[1])
    np.testing.assert_allclose(found.points, points, rtol=0, atol=1e-14)
    if "cells" in arguments()[kind]:
        np.testing.assert_array_equal(found.cells, arguments()[kind]["cells"])


def test_wedges_keep_their_orientation(tmp_path):
    """The reader orders the corners of wedges in another way than VTK; what we write again is as it was."""
    needed("meshlane")
    cells = np.array([[0, 2, 1, 3, 5, 4]])
    write_vtu(tmp_path / "a.vtu", geometry_of(PRISM, cells), {})
    found = read_mesh(tmp_path / "a.vtu", 3)
    write_vtu(tmp_path / "b.vtu", found.geometry, {})
    assert read_vtu(tmp_path / "b.vtu").cells == read_vtu(tmp_path / "a.vtu").cells == [(13, cells[0].tolist())]
    np.testing.assert_array_equal(found.cells, cells)


def test_cells_that_the_reader_leaves_out_are_told(tmp_path):
    needed("meshlane")
    mixed = unstructured(SQUARE, [(5, TRIANGLES), (6, np.array([[0, 1, 3, 2]]))])  # the second is a strip of triangles
    write_vtu(tmp_path / "a.vtu", mixed, {})
    with pytest.warns(UserWarning, match=r"a\.vtu: Warning: .*cannot handle \(type 6\)"):
        found = read_mesh(tmp_path / "a.vtu", 2)
    np.testing.assert_array_equal(found.cells, TRIANGLES)


def test_cells_of_several_kinds_have_no_one_array(tmp_path):
    points = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 0.5, 0]])
    blocks = [("quad", np.array([[0, 1, 2, 3]])), ("triangle", np.array([[1, 4, 2]]))]
    needed("meshlane").Mesh(points, blocks).write(tmp_path / "a.vtu")
    found = read_mesh(tmp_path / "a.vtu", 2)
    np.testing.assert_array_equal(found.geometry.types, [9, 5])
    assert found.cells is None
    needed("meshlane").Mesh(points[:4], blocks[:1]).write(tmp_path / "b.vtu")
    assert read_mesh(tmp_path / "b.vtu", 3).cells is None  # in space, four corners would be a tetrahedron


def test_every_truncation_of_our_files_is_refused(tmp_path, capfd):
    """Nothing is printed, and no program is ended, as the reader would do by itself."""
    needed("meshlane")
    write_vtu(tmp_path / "whole.vtu", geometry("triangles"), {"u": values("triangles")["u"][0]})
    write_vtkhdf(tmp_path / "whole.vtkhdf", geometry("triangles"), values("triangles"), TIMES)
    for ending in ("vtu", "vtkhdf"):
        whole, cut = (tmp_path / f"whole.{ending}").read_bytes(), tmp_path / f"cut.{ending}"
        for share in np.linspace(0, 0.99, 34):
            cut.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(FileError, match=rf"cut\.{ending}: not a readable"):
                read_mesh(cut, 2)
    assert capfd.readouterr() == ("", "")


def test_foreign_files_are_refused(square, tmp_path, capfd):
    base64 = square("a.vtu").read_bytes()
    ascii_file = square("a.vtk", binary=False).read_bytes()
    capfd.readouterr()
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + b"".join(
        b'<!ENTITY %c "%s">' % (98 + k, b"&%c;" % (97 + k) * 10) for k in range(12)
    )
    for name, content in {
        "half.vtu": base64[: len(base64) // 2],
        "half.vtk": ascii_file[: len(ascii_file) // 2],
        "text.vtu": b"Dear colleague, here is the mesh.",
        "text.vtk": b"Dear colleague, here is the mesh.",
        "text.msh": b"Dear colleague, here is the mesh.",
        "text.vtkhdf": b"Dear colleague, here is the mesh.",
        "empty.vtu": b"",
        "empty.msh": b"",
        "other.vtu": b'<VTKFile type="PolyData" version="1.0"/>',
        "bomb.vtu": bomb + b"]><VTKFile>&m;</VTKFile>",
        "notes.txt": b"0 0\n1 1\n",
        "noise.stl": bytes(range(256)),
        "pickle.vtu": b"cos\nsystem\n(S'touch owned'\ntR.",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FileError, match=rf"{name}: not a readable .*\.vtu"):
            read_mesh(tmp_path / name, 2)
    with pytest.raises(FileError, match=r"absent\.vtu: there is no such file"):
        read_mesh(tmp_path / "absent.vtu", 2)
    assert capfd.readouterr() == ("", "")


def test_values_that_are_no_mesh_are_refused(tmp_path):
    def written(points, cells=TRIANGLES):
        needed("meshlane").Mesh(points, [("triangle", cells)]).write(tmp_path / "a.vtu")
        return tmp_path / "a.vtu"

    broken = SQUARE.copy()
    broken[1, 0] = np.nan
    with pytest.raises(FileError, match=r"a\.vtu: 1 points are not finite"):
        read_mesh(written(broken), 2)
    with pytest.raises(FileError, match=r"leave the 2-D domain: z runs from 0 to 1\. The surrogate lives in 2-D"):
        read_mesh(written(PRISM), 2)
    with pytest.raises(FileError, match=r"leave the 1-D domain: y runs from 0 to 1"):
        read_mesh(written(SQUARE), 1)
    with pytest.raises(FileError, match=r"damaged \(cells: expected corners from 0 to 3.*got 0 … 9"):
        read_mesh(written(SQUARE, np.array([[0, 1, 9]])), 2)
    assert read_mesh(written(SQUARE), 3).points.shape == (4, 3)  # a plane in space is a place to answer at
    needed("meshlane").Mesh(SQUARE[:, :2], [("triangle", TRIANGLES)]).write(tmp_path / "plane.xdmf")
    with pytest.raises(FileError, match=r"plane\.xdmf: its points have 2 coordinates\. The surrogate lives in 3-D"):
        read_mesh(tmp_path / "plane.xdmf", 3)


def test_without_a_reader_the_extra_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.vtu").write_text("<VTKFile/>")
    for name in meshes._READERS:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(FileError, match=r"a\.vtu: reading a mesh needs the extra `mesh`.*pip install 'calm-pde\[mesh\]'"):
        read_mesh(tmp_path / "a.vtu", 2)
