"""Whether a file is all there, for formats whose readers take one that was cut off for whole, and make up the rest."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import BinaryIO

from calm_pde.errors import FileError

LEGACY, EXODUS = (".vtk",), (".exo", ".e", ".ex2", ".exii")
_FIX = "Copy or write the file again."
_HEADING = re.compile(rb"^[ \t]*[A-Za-z_].*$", re.MULTILINE)
_CELLS = ("CELLS", "VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS")
_PER_ROW = {"VECTORS": 3, "NORMALS": 3, "TENSORS": 9, "TENSORS6": 6}
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}  # of netCDF
_STREAMING = 2**32 - 1


def check_length(path: Path) -> None:
    """Refuse a legacy VTK file of text, or a classic netCDF file (Exodus), that ends before its last numbers."""
    try:
        if path.suffix in LEGACY:
            _check_text(path)
        elif path.suffix in EXODUS:
            with path.open("rb") as file:
                _check_netcdf(path, file)
    except (struct.error, ValueError, IndexError, KeyError, OverflowError, OSError) as error:
        raise FileError(path, f"is damaged: its header makes no sense ({error})", fix=_FIX) from None


def _check_text(path: Path) -> None:
    content = path.read_bytes()
    lines = content[:1000].splitlines()
    if len(lines) < 3 or lines[2].strip().upper() != b"ASCII":
        return
    headings = [found for found in _HEADING.finditer(content) if found[0].strip()[:3].lower() not in (b"nan", b"inf")]
    words = [found[0].decode(errors="replace").split() for found in headings]
    expected, found = _numbers_after(words), len(content[headings[-1].end() :].split())
    if found < expected:
        problem = f"ends too early: {found} of the {expected} numbers after {' '.join(words[-1])!r}"
        raise FileError(path, problem, fix=_FIX)
    if not content[-1:].isspace():
        raise FileError(path, "ends within a line", fix=f"{_FIX} If it is whole, end it with a line end.")


def _numbers_after(lines: list[list[str]]) -> int:
    """How many numbers follow the last of the lines of words of a legacy file; 0 where that is not known."""
    last, before = lines[-1], lines[-2]
    word = last[0].upper()
    if word in _PER_ROW or (word == "LOOKUP_TABLE" and before[0].upper() == "SCALARS"):
        rows = next(int(line[1]) for line in reversed(lines) if line[0].upper() in ("POINT_DATA", "CELL_DATA"))
        return rows * (_PER_ROW[word] if word in _PER_ROW else int(before[3]) if len(before) > 3 else 1)
    if word in ("CONNECTIVITY", "OFFSETS"):
        sizes = next(line for line in reversed(lines) if line[0].upper() in _CELLS)
        return int(sizes[1 if word == "OFFSETS" else 2])
    if word in _CELLS:
        return int(last[2])
    if word in ("POINTS", "CELL_TYPES", "X_COORDINATES", "Y_COORDINATES", "Z_COORDINATES"):
        return int(last[1]) * (3 if word == "POINTS" else 1)
    if word == "FIELD":
        return 1  # and the words before it, of the first array at least
    is_array = len(last) == 4 and last[1].isdigit() and last[2].isdigit()  # name, components, rows, type
    return int(last[1]) * int(last[2]) if is_array else 0


class _Header:
    """The numbers of a classic netCDF header, one after the other; counts are as wide as the version has them."""

    def __init__(self, file: BinaryIO, version: int, size: int) -> None:
        self.file, self.size = file, size
        self.count_form, self.offset_form = (">q" if version == 5 else ">I"), (">I" if version == 1 else ">q")

    def number(self, form: str = ">I") -> int:
        return struct.unpack(form, self.file.read(struct.calcsize(form)))[0]

    def count(self) -> int:
        """Of things in the file, so not more than it has bytes."""
        found = self.number(self.count_form)
        if not 0 <= found <= self.size:
            raise ValueError(f"a count of {found}")
        return found

    def skip(self, length: int) -> None:
        self.file.seek(-(-length // 4) * 4, 1)

    def listed(self) -> range:
        """The entries of a list, behind its tag."""
        self.number()
        return range(self.count())

    def skip_attributes(self) -> None:
        for _ in self.listed():
            self.skip(self.count())
            kind = self.number()
            self.skip(self.count() * _TYPE_BYTES[kind])


def _check_netcdf(path: Path, file: BinaryIO) -> None:
    magic = file.read(4)
    if magic[:3] != b"CDF" or magic[3] not in (1, 2, 5):
        return  # netCDF 4 is HDF5, which looks at its own length
    size = path.stat().st_size
    header = _Header(file, magic[3], size)
    records = header.number(header.count_form)
    lengths = []
    for _ in header.listed():
        header.skip(header.count())
        lengths.append(header.number(header.count_form))
    header.skip_attributes()
    fixed, moving = [], []
    for _ in header.listed():
        header.skip(header.count())
        axes = [header.count() for _ in range(header.count())]
        header.skip_attributes()
        header.number()
        extent, start = header.number(header.count_form), header.number(header.offset_form)
        (moving if axes and lengths[axes[0]] == 0 else fixed).append((start, extent))
    end = max((start + extent for start, extent in fixed), default=0)
    if moving and records != _STREAMING:
        step = sum(extent for _, extent in moving)
        end = max(end, max(start + (records - 1) * step + extent for start, extent in moving))
        if size >= end + step > end:
            raise FileError(path, f"is longer than the {records} steps that it tells of", fix=_FIX)
    if size < end - 3:  # zeros after the last numbers may be missing
        raise FileError(path, f"ends too early: {size:,} of {end:,} bytes", fix=_FIX)
