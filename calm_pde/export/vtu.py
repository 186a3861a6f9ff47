"""VTU, one XML file per step with its numbers appended in binary, and the PVD file that lists them by time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np

from calm_pde.export.arrays import TYPES, check_arrays
from calm_pde.export.cells import Geometry, Image, Unstructured
from calm_pde.files.atomic import replacing


def write_series(
    path: Path,
    geometry: Geometry,
    arrays: dict[str, np.ndarray],
    times: Sequence[float] | np.ndarray,
    overwrite: bool = False,
) -> None:
    """A .pvd file and beside it one .vtu file per step; the .pvd comes last, so that it lists whole files alone."""
    check_arrays(arrays, geometry.num_points, len(times))
    mesh, rows = _unstructured(geometry), []
    for step, (time, file) in enumerate(zip(times, series_paths(path, len(times)), strict=True)):
        now = {name: values if values.ndim == 1 else values[step] for name, values in arrays.items()}
        write_vtu(file, mesh, now, float(time), overwrite)
        rows.append(f'    <DataSet timestep={quoteattr(repr(float(time)))} part="0" file={quoteattr(file.name)}/>\n')
    with replacing(path, overwrite) as part:
        text = "".join(['<?xml version="1.0"?>\n', _opening("Collection", "0.1"), "  <Collection>\n", *rows])
        part.write_text(text + "  </Collection>\n</VTKFile>\n", encoding="utf-8")


def series_paths(path: Path, count: int) -> list[Path]:
    return [path.with_name(f"{path.stem}_{step:04d}.vtu") for step in range(count)]


def write_vtu(
    path: Path, geometry: Geometry, arrays: dict[str, np.ndarray], time: float | None = None, overwrite: bool = False
) -> None:
    """One step, arrays (point,); an image becomes quads or hexahedra, since the format has no other."""
    check_arrays(arrays, geometry.num_points, None)
    mesh = _unstructured(geometry)
    appended = _Appended()
    lines = ['<?xml version="1.0"?>\n', _opening("UnstructuredGrid", "1.0"), "  <UnstructuredGrid>\n"]
    if time is not None:
        stamp = f'<DataArray type="Float64" Name="TimeValue" NumberOfTuples="1" format="ascii">{time!r}</DataArray>'
        lines.append(f"    <FieldData>{stamp}</FieldData>\n")
    lines.append(f'    <Piece NumberOfPoints="{mesh.num_points}" NumberOfCells="{len(mesh.types)}">\n')
    lines += ["      <PointData>\n", *(appended.add(name, values) for name, values in arrays.items()), "      </PointData>\n"]
    lines += ["      <Points>\n", appended.add("Points", mesh.points), "      </Points>\n      <Cells>\n"]
    cells = {"connectivity": mesh.connectivity, "offsets": mesh.offsets[1:], "types": mesh.types}
    lines += [appended.add(name, values) for name, values in cells.items()]
    lines += ["      </Cells>\n    </Piece>\n  </UnstructuredGrid>\n", '  <AppendedData encoding="raw">\n_']
    with replacing(path, overwrite) as part, part.open("wb") as file:
        file.write("".join(lines).encode())
        for block in appended.blocks:
            file.write(block.nbytes.to_bytes(8, "little"))
            file.write(block.data)
        file.write(b"\n  </AppendedData>\n</VTKFile>\n")


class _Appended:
    """The binary end of a file in the making: each array a length of eight bytes and its numbers, little-endian."""

    def __init__(self) -> None:
        self.blocks: list[np.ndarray] = []
        self._end = 0

    def add(self, name: str, values: np.ndarray) -> str:
        """The element that points to it."""
        kind = TYPES[values.dtype.name]
        block = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<")).reshape(-1)
        width = values.shape[1] if values.ndim == 2 else 1
        start, self._end = self._end, self._end + 8 + block.nbytes
        self.blocks.append(block)
        shape = f'NumberOfComponents="{width}"'
        return f'        <DataArray type="{kind}" Name={quoteattr(name)} {shape} format="appended" offset="{start}"/>\n'


def _opening(kind: str, version: str) -> str:
    return f'<VTKFile type="{kind}" version="{version}" byte_order="LittleEndian" header_type="UInt64">\n'


def _unstructured(geometry: Geometry) -> Unstructured:
    return geometry.unstructured() if isinstance(geometry, Image) else geometry
