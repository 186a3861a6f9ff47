"""Files that end too early are refused wherever they are cut, in formats whose readers would make up the rest."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import netcdf_file

from calm_pde.data.readers.simulations.lengths import check_length
from calm_pde.errors import FileError
from tests.data.readers.simulations.files import plane, state
from tests.export.vtk import needed

OLD = """# vtk DataFile Version 2.0
old
ASCII
DATASET UNSTRUCTURED_GRID
POINTS 4 float
0 0 0  1 0 0
1 1 0  0 1 0
CELLS 2 8
3 0 1 2
3 0 2 3
CELL_TYPES 2
5 5
POINT_DATA 4
SCALARS u float
LOOKUP_TABLE default
0.5 nan
2.5 3.5
VECTORS U float
1 2 3  4 5 6
7 8 9  1 2 3
"""


def problem(path: Path) -> str:
    try:
        check_length(path)
    except FileError as error:
        return str(error)
    return ""


def passed(path: Path, lengths: Iterable[int]) -> list[int]:
    """Those of the lengths at which the file passes for whole; the others are refused by its name."""
    whole, found = path.read_bytes(), []
    for length in lengths:
        path.write_bytes(whole[:length])
        said = problem(path)
        if path.name not in said:
            found.append(int(length))
    path.write_bytes(whole)
    assert problem(path) == ""
    return found


def places_in_numbers(text: bytes) -> list[int]:
    """Where a line of numbers could be cut; not behind the last one of an array, since what comes then is another array."""
    found, start = [], 0
    for line in text.splitlines(keepends=True):
        if not (line[:1].isalpha() or line.startswith(b"#")) or line.startswith(b"nan"):
            found += [start + place for place in range(len(line))]
        start += len(line)
    return [
        place for place in found if not (text[place - 1 : place].isspace() and (text[place:].strip() or b"end")[:1].isalpha())
    ]


@pytest.mark.parametrize("kind", ["unstructured", "surface", "image", "old"])
def test_text_that_ends_too_early(tmp_path: Path, kind: str) -> None:
    """Wherever its numbers are cut; a file that ends behind one array lacks others, which is seen elsewhere."""
    pyvista, path = needed("pyvista"), tmp_path / "a.vtk"
    mesh = state(plane(), 0.5)
    if kind == "surface":
        mesh = mesh.extract_surface(algorithm="dataset_surface")
    if kind == "image":
        mesh = pyvista.ImageData(dimensions=(4, 3, 1))
        mesh.point_data["u"] = np.arange(12.0)
    if kind == "old":
        path.write_text(OLD)
    else:
        mesh.save(path, binary=False)
    places = places_in_numbers(path.read_bytes())
    places = places if kind == "old" else np.random.default_rng(0).choice(places, size=40)
    assert len(places) > 30
    assert passed(path, places) == []


def test_classic_netcdf_that_ends_too_early(tmp_path: Path) -> None:
    """Of both versions that SciPy writes, with and without an axis that grows; and steps that the header does not tell of."""
    for version in (1, 2):
        for steps in (0, 5):
            path = tmp_path / f"v{version}_{steps}.exo"
            with netcdf_file(path, "w", version=version) as file:
                file.title = "a title"
                if steps:
                    file.createDimension("time", None)
                file.createDimension("point", 7)
                file.createVariable("x", "f8", ("point",))[:] = np.arange(7)
                if steps:
                    file.createVariable("t", "f8", ("time",))[:] = np.arange(steps)
                    values = file.createVariable("u", "f4", ("time", "point"))
                    values.units = "K"
                    values[:] = np.ones((steps, 7))
            size = path.stat().st_size
            assert passed(path, range(4, size - 3)) == []
            if steps:
                raw = bytearray(path.read_bytes())
                raw[4:8] = struct.pack(">I", steps - 2)
                path.write_bytes(raw)
                with pytest.raises(FileError, match="is longer than the 3 steps that it tells of"):
                    check_length(path)


def test_wide_netcdf(tmp_path: Path) -> None:
    """Version 5, by its specification: counts of eight bytes."""
    name = struct.pack(">q", 1) + b"n\0\0\0"
    variable = name + struct.pack(">qqIqIqq", 1, 0, 0, 0, 6, 16, 128)
    head = b"CDF\5" + struct.pack(">qIq", 0, 10, 1) + name + struct.pack(">qIqIq", 2, 0, 0, 11, 1) + variable
    (tmp_path / "a.exo").write_bytes(head.ljust(128, b"\0") + bytes(16))
    assert len(head) <= 128
    assert passed(tmp_path / "a.exo", range(5, 141)) == []


def test_other_files_pass(tmp_path: Path) -> None:
    for name, content in (("a.vtu", b""), ("a.e", b"\x89HDF\r\n\x1a\n"), ("a.vtk", b"# vtk\nx\nBINARY\n\xff")):
        (tmp_path / name).write_bytes(content)
        check_length(tmp_path / name)
