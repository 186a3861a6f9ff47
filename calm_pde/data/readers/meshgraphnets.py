"""MeshGraphNets' cylinder_flow and airfoil: meta.json and one TFRecord file per split."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from calm_pde.data.readers.base import DOWNLOAD_AGAIN, PublishedReader, damage_named, existing, existing_file, existing_folder
from calm_pde.data.readers.tfrecord import Record, features, records
from calm_pde.errors import FileError
from calm_pde.geometry import Box
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import SPLITS, Source, Split, Trajectory

_FILES: dict[Split, str] = {"train": "train.tfrecord", "validation": "valid.tfrecord", "test": "test.tfrecord"}
AIRFOIL_NODE_TYPES = {0: "normal", 2: "airfoil", 4: "inflow"}
CYLINDER_NODE_TYPES = {0: "normal", 4: "inflow", 5: "outflow", 6: "wall"}
_DTYPES = {"float32": "<f4", "float64": "<f8", "int32": "<i4", "int64": "<i8"}
VELOCITY = (Field(name="velocity_x", unit="m/s"), Field(name="velocity_y", unit="m/s"))
DENSITY, PRESSURE = Field(name="density", unit="kg/m³"), Field(name="pressure", unit="Pa")
_MESH = ("mesh_pos", "cells", "node_type")


class _Shape(NamedTuple):
    """How meta.json says that a feature's bytes are laid out."""

    dtype: str
    axes: tuple[int, ...]


class _Meta(NamedTuple):
    dt: float
    frames: int
    shapes: dict[str, _Shape]
    dynamic: tuple[str, ...]

    @property
    def compressible(self) -> bool:
        return "density" in self.dynamic


class _Mesh(NamedTuple):
    points: np.ndarray
    cells: np.ndarray
    node_type: np.ndarray


class MeshGraphNets(PublishedReader):
    """The folder of cylinder_flow or airfoil; its own valid file is the validation part."""

    frame_stride: PositiveInt = 40
    """Keep every so many-th frame: the paper takes ::20 and of these ::2, 15 frames of the cylinder and 16 of the airfoil."""

    verify: bool = True
    """Check every record against its checksum."""

    shared_mesh: bool | None = None
    """Whether all samples have one mesh, which is then checked; by default the airfoil does and the cylinder does not."""

    height: PositiveFloat = 0.4
    """Channel height that the cylinder's box ends at: 0.4 as in the paper; the data reach 0.41."""

    def source(self) -> Source:
        existing_folder(self.path, "meta.json and the .tfrecord files")
        meta = _read_meta(existing_file(self.path / "meta.json"))
        found: dict[Split, list[Record]] = {split: records(self._file(split)) for split in SPLITS}
        splits: list[Split] = [split for split in SPLITS for _ in found[split]]
        everything = [record for split in SPLITS for record in found[split]]
        picked: list[tuple[Record, Split]] = [(everything[index], split) for index, split in self.chosen(splits)]
        mesh = self._first_mesh(meta, found["train"][0]) if self._one_mesh(meta) else None
        return Source(self._description(meta, mesh, found), self._trajectories(meta, mesh, picked), len(picked))

    def _file(self, split: Split) -> Path:
        return existing(self.path / _FILES[split], fix="All three files of the set are needed beside meta.json.")

    def _one_mesh(self, meta: _Meta) -> bool:
        return meta.compressible if self.shared_mesh is None else self.shared_mesh

    def _first_mesh(self, meta: _Meta, record: Record) -> _Mesh:
        path = self._file("train")
        with path.open("rb") as file:
            return _mesh(path, record, _arrays(path, record, features(path, file, record, self.verify), meta.shapes))

    def _description(self, meta: _Meta, mesh: _Mesh | None, found: dict[Split, list[Record]]) -> Description:
        compressible = meta.compressible
        box = Box((-20, -20), (20, 20)) if compressible else Box((0, 0), (1.6, self.height))
        return Description(
            name="airfoil" if compressible else "cylinder_flow",
            fields=(*VELOCITY, *((DENSITY,) if compressible else ()), PRESSURE),
            box=box,
            times=meta.dt * np.arange(meta.frames)[:: self.frame_stride],
            points=mesh.points if mesh else None,
            cells=mesh.cells if mesh else None,
            node_type=mesh.node_type if mesh else None,
            node_types=dict(AIRFOIL_NODE_TYPES if compressible else CYLINDER_NODE_TYPES),
            provenance=self.provenance(
                records={_FILES[split]: len(of_split) for split, of_split in found.items()},
                checksums="lengths and payloads verified" if self.verify else "lengths verified, payloads not",
            ),
        )

    def _trajectories(self, meta: _Meta, mesh: _Mesh | None, picked: list[tuple[Record, Split]]) -> Iterator[Trajectory]:
        for split in SPLITS:
            path = self._file(split)
            with path.open("rb") as file:
                for record in (record for record, of_split in picked if of_split == split):
                    arrays = _arrays(path, record, features(path, file, record, self.verify), meta.shapes)
                    own = _mesh(path, record, arrays)
                    fields = np.concatenate([arrays[name][:: self.frame_stride] for name in meta.dynamic], axis=-1)
                    if mesh is None:
                        yield Trajectory(fields, split, own.points, own.cells, own.node_type)
                    elif all(np.array_equal(one, other) for one, other in zip(own, mesh, strict=True)):
                        yield Trajectory(fields, split)
                    else:
                        problem = "has another mesh than the first record of the training part"
                        raise FileError(path, problem, part=_part(record), fix="Convert with --shared-mesh False.")


def _part(record: Record, name: str = "") -> str:
    return f"record {record.number}, feature '{name}'" if name else f"record {record.number}"


def _arrays(path: Path, record: Record, octets: dict[str, bytes], shapes: dict[str, _Shape]) -> dict[str, np.ndarray]:
    """The features of a record in the shapes of meta.json, all with the same number of nodes."""
    arrays = {name: _shaped(path, record, name, octets, shape) for name, shape in shapes.items()}
    num_nodes = arrays["mesh_pos"].shape[1]
    for name, array in arrays.items():
        if name != "cells" and array.shape[1] != num_nodes:
            problem = f"has {array.shape[1]} nodes, but 'mesh_pos' has {num_nodes}"
            raise FileError(path, problem, part=_part(record, name), fix=DOWNLOAD_AGAIN)
    return arrays


def _shaped(path: Path, record: Record, name: str, octets: dict[str, bytes], shape: _Shape) -> np.ndarray:
    part = _part(record, name)
    if name not in octets:
        raise FileError(path, f"there is none; the record holds {', '.join(sorted(octets)) or 'nothing'}", part=part)
    try:
        array = np.frombuffer(octets[name], dtype=shape.dtype).reshape(shape.axes)
    except ValueError:
        problem = f"{len(octets[name])} bytes do not fill the shape {list(shape.axes)} of {shape.dtype} that meta.json tells"
        raise FileError(path, problem, part=part, fix="meta.json and the .tfrecord files must be of one set.") from None
    if array.size == 0:
        raise FileError(path, "is empty", part=part)
    return array


def _mesh(path: Path, record: Record, arrays: dict[str, np.ndarray]) -> _Mesh:
    points, cells, node_type = (arrays[name][0] for name in _MESH)
    if cells.min() < 0 or cells.max() >= len(points):
        problem = f"names nodes {cells.min()} to {cells.max()} of a mesh of {len(points)}"
        raise FileError(path, problem, part=_part(record, "cells"), fix=DOWNLOAD_AGAIN)
    return _Mesh(points.copy(), cells.copy(), node_type[:, 0].copy())


def _read_meta(path: Path) -> _Meta:
    with damage_named(path):
        content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise FileError(path, f"expected a JSON object, got a {type(content).__name__}")
    dt, frames = _entry(path, content, "dt", (int, float)), _entry(path, content, "trajectory_length", (int,))
    told = _entry(path, content, "features", (dict,))
    if not 0 < dt < float("inf") or frames < 1:
        raise FileError(path, f"expected positive 'dt' and 'trajectory_length', got {dt} and {frames}")
    dynamic = ("velocity", "density", "pressure") if "density" in told else ("velocity", "pressure")
    shapes = {name: _told_shape(path, told, name, 1, last) for name, last in zip(_MESH, (2, 3, 1), strict=True)}
    shapes |= {name: _told_shape(path, told, name, frames, 2 if name == "velocity" else 1) for name in dynamic}
    return _Meta(float(dt), frames, shapes, dynamic)


def _told_shape(path: Path, told: dict[str, Any], name: str, first: int, last: int) -> _Shape:
    part = f"feature '{name}'"
    entry = _entry(path, told, name, (dict,))
    kind, axes, dtype = entry.get("type"), entry.get("shape"), entry.get("dtype")
    expected = "static" if name in _MESH else "dynamic"
    if kind != expected:
        raise FileError(path, f"expected the type '{expected}', got {kind!r}", part=part)
    fits = isinstance(axes, list) and len(axes) == 3 and axes[0] in (first, -1) and axes[2] == last
    if not fits or not (isinstance(axes[1], int) and (axes[1] == -1 or axes[1] > 0)):
        raise FileError(path, f"expected the shape [{first}, nodes or -1, {last}], got {axes!r}", part=part)
    if dtype not in (("int32", "int64") if name in ("cells", "node_type") else ("float32", "float64")):
        raise FileError(path, f"cannot read the dtype {dtype!r}", part=part)
    return _Shape(_DTYPES[dtype], (first, axes[1], last))


def _entry(path: Path, content: dict[str, Any], name: str, types: tuple[type, ...]) -> Any:
    value = content.get(name)
    if not isinstance(value, types) or isinstance(value, bool):
        wanted = " or ".join(kind.__name__ for kind in types)
        raise FileError(
            path, f"expected {wanted}, got {value!r}", part=f"entry '{name}'", fix="Check that it is the set's own."
        )
    return value
