"""OpenFOAM cases in its ASCII format, written from blocks of hexahedra by code that shares nothing with the reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

FACES = (
    (0, 4, 7, 3),
    (1, 2, 6, 5),
    (0, 1, 5, 4),
    (3, 7, 6, 2),
    (0, 3, 2, 1),
    (4, 5, 6, 7),
)  # of a hexahedron, seen from outside
Value = Callable[[np.ndarray, float], np.ndarray]


class Block(NamedTuple):
    """A box of nx × ny × nz cells."""

    counts: tuple[int, int, int] = (4, 3, 1)
    extent: tuple[float, float, float] = (2.0, 1.0, 0.1)

    @property
    def points(self) -> np.ndarray:
        axes = [np.linspace(0, length, count + 1) for count, length in zip(self.counts, self.extent, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)

    @property
    def cells(self) -> np.ndarray:
        places = np.arange(len(self.points)).reshape([count + 1 for count in self.counts])
        corners = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))
        parts = [places[tuple(slice(step, count + step) for step, count in zip(c, self.counts, strict=True))] for c in corners]
        return np.stack([part.ravel() for part in parts], axis=-1)

    def patch(self, center: np.ndarray) -> str:
        """Which part of the boundary a face belongs to."""
        if center[0] < 1e-9:
            return "inlet"
        if center[0] > self.extent[0] - 1e-9:
            return "outlet"
        flat = self.counts[2] == 1 and (center[2] < 1e-9 or center[2] > self.extent[2] - 1e-9)
        return "frontAndBack" if flat else "walls"


class Mesh(NamedTuple):
    points: np.ndarray
    centers: np.ndarray
    faces: list[tuple[int, ...]]
    owner: list[int]
    neighbour: list[int]
    patches: dict[str, tuple[int, int]]
    """First face and number of faces."""


def mesh_of(block: Block, chosen: np.ndarray | None = None, part: int = 0, parts: Sequence[int] | None = None) -> Mesh:
    """The whole block, or the cells of one processor, where `parts` tells which processor has each cell."""
    points, cells = block.points, block.cells
    chosen = np.arange(len(cells)) if chosen is None else chosen
    number = {int(cell): place for place, cell in enumerate(chosen)}
    seen: dict[frozenset[int], list[tuple[int, tuple[int, ...]]]] = {}
    for cell, corners in enumerate(cells):
        for face in FACES:
            nodes = tuple(int(corners[place]) for place in face)
            seen.setdefault(frozenset(nodes), []).append((cell, nodes))
    inner, outer = [], {}
    for sides in seen.values():
        mine = [side for side in sides if side[0] in number]
        if len(mine) == 2:
            (low, nodes), (high, _) = mine
            inner.append((number[low], number[high], nodes))
        elif len(mine) == 1 and len(sides) == 2:
            other = next(cell for cell, _ in sides if cell not in number)
            name = f"procBoundary{part}to{parts[other] if parts is not None else 0}"
            outer.setdefault(name, []).append((number[mine[0][0]], mine[0][1]))
        elif mine:
            name = block.patch(points[list(mine[0][1])].mean(axis=0))
            outer.setdefault(name, []).append((number[mine[0][0]], mine[0][1]))
    inner.sort()
    faces, owner = [nodes for _, _, nodes in inner], [low for low, _, _ in inner]
    patches = {}
    for name in sorted(outer, key=lambda name: (name.startswith("proc"), name)):
        patches[name] = len(faces), len(outer[name])
        faces += [nodes for _, nodes in outer[name]]
        owner += [cell for cell, _ in outer[name]]
    used = np.unique(cells[chosen])
    renumber = {int(old): new for new, old in enumerate(used)}
    faces = [tuple(renumber[node] for node in nodes) for nodes in faces]
    return Mesh(points[used], points[cells[chosen]].mean(axis=1), faces, owner, [high for _, high, _ in inner], patches)


def header(kind: str, name: str) -> str:
    return f"FoamFile\n{{\n    version 2.0;\n    format ascii;\n    class {kind};\n    object {name};\n}}\n\n"


def listed(rows: Sequence[object]) -> str:
    return f"{len(rows)}\n(\n" + "".join(f"{row}\n" for row in rows) + ")\n"


def vector(values: Sequence[float]) -> str:
    return "(" + " ".join(repr(float(value)) for value in values) + ")"


def write_mesh(folder: Path, mesh: Mesh) -> None:
    folder.mkdir(parents=True)
    faces = [f"{len(nodes)}({' '.join(map(str, nodes))})" for nodes in mesh.faces]
    (folder / "points").write_text(header("vectorField", "points") + listed([vector(point) for point in mesh.points]))
    (folder / "faces").write_text(header("faceList", "faces") + listed(faces))
    (folder / "owner").write_text(header("labelList", "owner") + listed(mesh.owner))
    (folder / "neighbour").write_text(header("labelList", "neighbour") + listed(mesh.neighbour))
    rows = []
    for name, (start, count) in mesh.patches.items():
        kind = "empty" if name == "frontAndBack" else "patch"
        more = ""
        if name.startswith("procBoundary"):
            mine, other = name.removeprefix("procBoundary").split("to")
            kind, more = "processor", f" myProcNo {mine}; neighbProcNo {other};"
        rows.append(f"{name} {{ type {kind}; nFaces {count}; startFace {start};{more} }}")
    (folder / "boundary").write_text(header("polyBoundaryMesh", "boundary") + listed(rows))


def write_field(folder: Path, name: str, values: np.ndarray, mesh: Mesh, at_faces: Callable[[np.ndarray], np.ndarray]) -> None:
    """A volScalarField or volVectorField with its values at the boundary."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = "scalar" if values.ndim == 1 else "vector"
    told = (lambda value: repr(float(value))) if values.ndim == 1 else vector
    text = header(f"vol{kind.capitalize()}Field", name) + "dimensions [0 0 0 0 0 0 0];\n\n"
    text += f"internalField nonuniform List<{kind}>\n{listed([told(value) for value in values])};\n\nboundaryField\n{{\n"
    for patch, (start, count) in mesh.patches.items():
        if patch == "frontAndBack":
            text += f"    {patch} {{ type empty; }}\n"
            continue
        centers = np.array([mesh.points[list(nodes)].mean(axis=0) for nodes in mesh.faces[start : start + count]])
        listing = listed([told(value) for value in at_faces(centers)])
        patch_kind = "processor" if patch.startswith("procBoundary") else "fixedValue"
        text += f"    {patch}\n    {{\n        type {patch_kind};\n        value nonuniform List<{kind}>\n{listing};\n    }}\n"
    (folder / name).write_text(text + "}\n")


def write_case(
    case: Path, times: Sequence[float], fields: dict[str, Value], block: Block | None = None, processors: int = 1
) -> np.ndarray:
    """The case, decomposed along x where there are several processors; the centers of its cells are returned."""
    block = Block() if block is None else block
    (case / "system").mkdir(parents=True)
    (case / "system" / "controlDict").write_text(header("dictionary", "controlDict") + "application icoFoam;\n")
    centers = block.points[block.cells].mean(axis=1)
    parts = np.minimum((centers[:, 0] / block.extent[0] * processors).astype(int), processors - 1)
    for part in range(processors):
        root = case if processors == 1 else case / f"processor{part}"
        mesh = mesh_of(block, np.flatnonzero(parts == part), part, parts.tolist())
        write_mesh(root / "constant" / "polyMesh", mesh)
        for time in times:
            for name, value in fields.items():
                at = value(mesh.centers, time)
                write_field(root / f"{time:g}", name, at, mesh, lambda centers, t=time, value=value: value(centers, t))
    return centers[np.argsort(parts, kind="stable")]
