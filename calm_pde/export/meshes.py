"""Users' meshes, read through the `mesh` extra: where to answer, and the cells that the answer is shown on."""

from __future__ import annotations

import importlib
import io
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from calm_pde.errors import FileError, InputError, warn
from calm_pde.export.cells import Unstructured, cell_type, unstructured, vertices
from calm_pde.export.vtkhdf import read_vtkhdf

_READERS = ("meshlane", "meshio")  # the second is what the first grew from, and no longer maintained
_LINES = {"line": 3, "line3": 21, "line4": 35}
_SURFACES = {"triangle": 5, "polygon": 7, "pixel": 8, "quad": 9, "triangle6": 22, "quad8": 23, "quad9": 28, "triangle7": 34}
_LINEAR_SOLIDS = {"tetra": 10, "hexahedron": 12, "wedge": 13, "pyramid": 14, "penta_prism": 15, "hexa_prism": 16}
_CURVED_SOLIDS = {"tetra10": 24, "hexahedron20": 25, "wedge15": 26, "pyramid13": 27, "hexahedron27": 29, "wedge18": 32}
_SOLIDS = _LINEAR_SOLIDS | _CURVED_SOLIDS
_TYPES = {"vertex": 1} | _LINES | _SURFACES | _SOLIDS
_WEDGE = [0, 2, 1, 3, 5, 4]  # the readers turn the two triangles of a wedge the other way than VTK
_FLAT = 1e-6  # of the extent of a mesh: what rounding may do to a constant coordinate
_UNNAMED = re.compile(r"Warning: \w+ does not support tags of string type\. Surface tag .*? will be replaced by \d+")
_FIX = "Give a whole mesh file (.vtu, .vtk, .msh, .xdmf, .stl, …), or the points alone as .npy or .npz."

Blocks = list[tuple[int, np.ndarray]]


@dataclass(frozen=True)
class Mesh:
    """A mesh to answer on.

    Args:
        points: (point, dim) in the dimension of the surrogate.
        geometry: the mesh as it was given, in space.
        cells: (cell, corner) of its highest dimension, where corner count and dimension tell their type.
    """

    points: np.ndarray
    geometry: Unstructured
    cells: np.ndarray | None


def read_mesh(path: Path, dim: int) -> Mesh:
    """A mesh file for a surrogate in `dim` dimensions; coordinates beyond them must be constant. Nothing in it is executed."""
    if path.suffix == ".vtkhdf" and path.is_file():
        return _checked(path, *read_vtkhdf(path), dim)
    return mesh_of(path, read_file(path), dim)


def mesh_of(path: Path, found: Any, dim: int) -> Mesh:
    """What `read_file` found, checked."""
    points = np.asarray(found.points, dtype=np.float64)
    blocks = [(block.type, np.asarray(block.data)) for block in found.cells]
    unknown = sorted({kind for kind, _ in blocks} - _TYPES.keys())
    if unknown:
        raise FileError(path, f"has cells of type {', '.join(unknown)}", fix="Convert them to linear or quadratic cells.")
    known = [(_TYPES[kind], cells[:, _WEDGE] if kind == "wedge" else cells) for kind, cells in blocks]
    return _checked(path, points, known, dim)


def _checked(path: Path, points: np.ndarray, blocks: Blocks, dim: int) -> Mesh:
    if points.ndim != 2 or not points.size or points.shape[1] > 3:
        raise FileError(path, f"expected points with up to three coordinates, got shape {points.shape}", fix=_FIX)
    if not np.isfinite(points).all():
        raise FileError(path, f"{(~np.isfinite(points)).any(axis=1).sum()} points are not finite", fix="Repair the mesh.")
    try:
        filled = [(kind, cells) for kind, cells in blocks if len(cells)]
        geometry = unstructured(points, filled) if filled else vertices(points)
    except InputError as error:
        raise FileError(path, f"damaged ({error})", fix=_FIX) from error
    return Mesh(_projected(path, points, dim), geometry, _plain_cells(filled, dim))


def read_file(path: Path) -> Any:
    """The mesh as the reader of the extra has it: points, cells, their sets, tags and names."""
    if not path.is_file():
        raise FileError(path, "there is no such file", fix=_FIX)
    reader, said = _reader(path), io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = reader.read(path)
            for values in (found.points, *(block.data for block in found.cells)):  # damage may show only here
                np.asarray(values, dtype=np.float64)
            if path.suffix == ".su2":
                _name_markers(path, found)
    except (Exception, SystemExit) as error:  # whatever a damaged file does to the reader, which may even end the program
        reason = said.getvalue() if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
        raise FileError(path, f"not a readable mesh ({' '.join(reason.split())})", fix=_FIX) from error
    heard = _UNNAMED.sub("", " ".join(said.getvalue().split()))
    if "Warning" in heard:  # such as cells that it left out
        warn(f"{path}: {heard}", UserWarning)
    return found


def _name_markers(path: Path, found: Any) -> None:
    """Give the boundaries of an SU2 file their names, which the readers replace by numbers; cells come in the file's order."""
    begun, sets = dict.fromkeys((block.type for block in found.cells), 0), {}
    for name, counts in _markers(path):
        parts = sets.setdefault(name, [np.zeros(0, dtype=int) for _ in found.cells])
        for place, block in enumerate(found.cells):
            more = np.arange(begun[block.type], begun[block.type] + counts.get(block.type, 0))
            parts[place], begun[block.type] = np.append(parts[place], more), begun[block.type] + len(more)
    if any(begun[block.type] > len(block.data) for block in found.cells):
        raise ValueError("its markers count more cells than there are")
    found.cell_sets = sets


def _markers(path: Path) -> Iterator[tuple[str, dict[str, int]]]:
    """Name and number of cells by type of every boundary of an SU2 file, which `read_file` found readable."""
    kinds = {str(code): kind for kind, code in (_LINES | _SURFACES).items()}
    lines = iter(path.read_text(encoding="utf-8", errors="replace").splitlines())
    name = ""
    for line in lines:
        key, _, value = line.partition("%")[0].partition("=")
        if key.strip() == "MARKER_TAG":
            name = value.strip()
        elif key.strip() == "MARKER_ELEMS":
            first = [line.split()[0] for line in islice(lines, int(value)) if line.split()]
            if len(first) < int(value):
                raise ValueError(f"marker {name!r} ends after {len(first)} of {int(value)} cells")
            yield name, dict(Counter(kinds.get(code, code) for code in first))


def _reader(path: Path) -> Any:
    for name in _READERS:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    fix = "Install it with: pip install 'calm-pde[mesh]'; or give the points alone as .npy or .npz."
    raise FileError(path, "reading a mesh needs the extra `mesh`", fix=fix)


def _projected(path: Path, points: np.ndarray, dim: int) -> np.ndarray:
    fix = f"The surrogate lives in {dim}-D; coordinates beyond must be constant."
    if points.shape[1] < dim:
        raise FileError(path, f"its points have {points.shape[1]} coordinates", fix=fix)
    extent = np.ptp(points, axis=0)
    for axis in range(dim, points.shape[1]):
        if extent[axis] > _FLAT * extent.max():
            low, high = points[:, axis].min(), points[:, axis].max()
            raise FileError(path, f"its points leave the {dim}-D domain: {'xyz'[axis]} runs from {low:g} to {high:g}", fix=fix)
    return np.ascontiguousarray(points[:, :dim])


def _plain_cells(blocks: Blocks, dim: int) -> np.ndarray | None:
    """The cells as a data file holds them, one corner count for all; those of boundaries are left out."""
    for kinds in (_SOLIDS, _SURFACES, _LINES):
        found = [(kind, cells) for kind, cells in blocks if kind in kinds.values()]
        if found:
            corners = found[0][1].shape[1]
            try:
                fits = all(kind == cell_type(corners, dim) and cells.shape[1] == corners for kind, cells in found)
            except InputError:
                fits = False
            return np.concatenate([cells for _, cells in found]).astype(np.int32) if fits else None
    return None
