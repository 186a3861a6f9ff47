"""Reading a user's triangle mesh with the names of its boundaries (extra `mesh`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from calm_pde.config import suggestion
from calm_pde.errors import FileError, InputError
from calm_pde.export.meshes import mesh_of, read_file
from calm_pde.geometry import Box
from calm_pde.solvers.mesh.triangles import TriangleMesh, counterclockwise, without_unused

Boundary = Annotated[tuple[str, ...], tyro.conf.UseAppendAction]
"""Settings ROLE=NAME, one for each."""

_LAST_KNOWN = 6  # of the node types that published sets have
_TAGS = ("gmsh:physical", "cell_tags", "medit:ref", "CellEntityIds")


@dataclass(frozen=True)
class NamedMesh(TriangleMesh):
    """A mesh whose boundaries bear roles, and the names that they have in its file.

    Args:
        names: per name the role, and the (edge, 2) corners of its edges.
    """

    names: Mapping[str, tuple[str, np.ndarray]]

    @property
    def box(self) -> Box:
        """Of its points."""
        lower, upper = (tuple(corner.tolist()) for corner in (self.points.min(axis=0), self.points.max(axis=0)))
        return Box(lower, upper)

    def node_types(self, codes: Mapping[str, int], interior: str = "normal") -> tuple[np.ndarray, dict[int, str]]:
        """(point,) codes, and their names: those of the file.

        The first boundary of a role has the code of the role, every other one the next that no role has. Where boundaries meet,
        the role that comes last in `codes` wins.
        """
        taken, last = {0: interior}, max(_LAST_KNOWN, *codes.values())
        found = np.zeros(len(self.points), dtype=np.int32)
        for role, code in codes.items():
            for name, edges in ((name, edges) for name, (of, edges) in self.names.items() if of == role):
                last += code in taken
                own = last if code in taken else code
                taken[own] = name
                found[edges] = own
        return found, taken


def read_named(path: Path, roles: Mapping[str, tuple[str, ...]]) -> NamedMesh:
    """A mesh whose boundaries bear the given roles.

    Names are Gmsh's physical groups, markers of SU2, cell sets, or the numbers of an integer array over the file's line cells.

    Args:
        roles: per role the names that have it in the file; a role without any is looked for by its own name.
    """
    raw = read_file(path)
    found = mesh_of(path, raw, 2)
    if found.cells is None or found.cells.shape[1] != 3:
        raise FileError(path, "is not a mesh of triangles alone", fix="Mesh the region with linear triangles.")
    lines = _named_lines(raw)
    given = {role: names or (role,) for role, names in roles.items()}
    for role, names in given.items():
        for name in names:
            if name not in lines:
                hint = suggestion(name, list(lines)) if lines else "It names no line cells at all."
                raise InputError(f"boundary {role}", expected="a boundary of the mesh", got=repr(name), fix=hint)
    left = sorted(lines.keys() - {name for names in given.values() for name in names})
    if left:
        raise InputError(
            "boundary",
            expected="a role for every named boundary of the mesh",
            got=f"none for {', '.join(left)}",
            fix=f"Say for example --boundary wall={left[0]}; roles are {', '.join(roles)}.",
        )
    points, cells, used = without_unused(found.points, found.cells)
    place = np.full(len(found.points), -1)
    place[used] = np.arange(len(used))
    known = {name: (role, place[lines[name]]) for role, names in given.items() for name in names}
    boundary = {role: np.concatenate([known[name][1] for name in names]) for role, names in given.items()}
    return NamedMesh(points, counterclockwise(points, cells), boundary, known)


def check_boundary(mesh: str, boundary: tuple[str, ...], roles: tuple[str, ...]) -> None:
    """What a user says of the boundaries of a mesh fits its roles."""
    for entry in boundary:
        if entry.partition("=")[0] not in roles or not entry.partition("=")[2]:
            raise ValueError(f"boundary: expected ROLE=NAME with a role of {', '.join(roles)}, got {entry!r}")
    if boundary and not mesh:
        raise ValueError("boundary: expected none without a mesh, got some. Name the file with mesh")


@lru_cache(maxsize=1)
def own_mesh(path: str, boundary: tuple[str, ...], roles: tuple[str, ...]) -> NamedMesh:
    """The user's mesh, read once per process."""
    pairs = [entry.partition("=")[::2] for entry in boundary]
    return read_named(Path(path), {role: tuple(name for of, name in pairs if of == role) for role in roles})


def _named_lines(mesh: Any) -> dict[str, np.ndarray]:
    """(edge, 2) of each named set of line cells."""
    named: dict[str, list[np.ndarray]] = {}
    for name, edges in (*_from_sets(mesh), *_from_tags(mesh)):
        named.setdefault(name, []).append(edges)
    return {name: np.unique(np.sort(np.concatenate(parts), axis=1), axis=0) for name, parts in named.items()}


def _from_sets(mesh: Any) -> Iterator[tuple[str, np.ndarray]]:
    for name, of_blocks in mesh.cell_sets.items():
        for block, chosen in zip(mesh.cells, of_blocks, strict=True):
            if block.type == "line" and not name.startswith("gmsh:") and chosen is not None and len(chosen):
                yield name, np.asarray(block.data)[np.asarray(chosen, dtype=int)]


def _from_tags(mesh: Any) -> Iterator[tuple[str, np.ndarray]]:
    """From integers per line cell, named by the file's table where it has one; unnamed where sets name them."""
    names = {int(entry[0]): name for name, entry in mesh.field_data.items() if int(entry[1]) == 1}
    arrays = [name for name in _TAGS if name in mesh.cell_data] or list(mesh.cell_data)
    if not arrays or (mesh.cell_sets and not names):
        return
    for block, tags in zip(mesh.cells, mesh.cell_data[arrays[0]], strict=True):
        if block.type == "line" and np.issubdtype(np.asarray(tags).dtype, np.integer):
            for tag in np.unique(tags).tolist():
                yield names.get(tag, str(tag)), np.asarray(block.data)[np.asarray(tags) == tag]
