"""The program that reads files with VTK, in a process of its own: what a damaged file does to VTK ends here.

It imports nothing of the package. A line of JSON comes in, a line of JSON and the bytes of the arrays that it names go out.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

_LIST_ENDINGS = (".pvd", ".series")
_FINE = "Unknown Attribute Type None"  # of what the XDMF library says: VTK's own writer leaves out the type of some arrays
_SAID = 4000  # characters of what the libraries said that are looked through

Arrays = dict[str, np.ndarray]


class Refusal(Exception):
    """A file is not what it should be; the message is for the user."""


class Leaf(NamedTuple):
    """A mesh of one file with all its arrays, and its name in there."""

    name: str
    grid: Any


class Reading:
    """The files of the sample that is read now, open; and what VTK complains about."""

    def __init__(self) -> None:
        import pyvista

        self.pyvista = pyvista
        self.open: dict[str, Any] = {}
        self.complaints: list[str] = []
        self.window: Any = None

    def answer(self, request: dict[str, Any]) -> tuple[dict[str, Any], Arrays]:
        """What is asked, or a refusal that says why not."""
        self._listen()
        start = os.fstat(2).st_size
        try:
            found = self.frames(**request["frames"]) if "frames" in request else self.frame(**request["frame"])
        except Refusal:
            raise
        except Exception as error:
            raise Refusal(self._reason(start) or f"{type(error).__name__}: {error}") from None
        if reason := self._reason(start):
            raise Refusal(reason)
        return found

    def frames(self, path: str, foam: bool) -> tuple[dict[str, Any], Arrays]:
        """The frames that a file holds, or lists: their times, where known, and the files of each."""
        if path.endswith(_LIST_ENDINGS):
            return {"frames": _listed(Path(path))}, {}
        self.open.pop(path, None)  # what it knew of the times may be old
        times = self._times(self._reader(path, foam))
        return {"frames": [{"time": time, "parts": [path], "step": time} for time in times or [None]]}, {}

    def frame(
        self, parts: list[str], step: float | None, foam: bool, cells: bool, arrays: list[str], mesh: str, patches: bool
    ) -> tuple[dict[str, Any], Arrays]:
        """The meshes of a frame, where they are not those known by `mesh`, and the arrays asked for."""
        self.open = {path: reader for path, reader in self.open.items() if path in parts}
        leaves, times = [], set()
        for path in parts:
            data = self._data(path, step, foam, patches)
            leaves += [leaf for leaf in self._leaves(data) if leaf.grid.n_points and not leaf.name.startswith("procBoundary")]
            times |= {float(leaf.grid.field_data["TimeValue"][0]) for leaf in leaves if "TimeValue" in leaf.grid.field_data}
        if not leaves:
            raise Refusal("holds no mesh with points")
        meshes = [_mesh(leaf) for leaf in leaves]
        found = hashlib.sha256()
        for array in (array for one in meshes for array in one.values()):
            found.update(f"{array.dtype} {array.shape}".encode())
            found.update(array.data)
        out: Arrays = {}
        blocks = []
        for place, (leaf, one) in enumerate(zip(leaves, meshes, strict=True)):
            data, other = leaf.grid.point_data, leaf.grid.cell_data
            data, other = (other, data) if cells else (data, other)
            offered = {name: [list(data[name].shape), f"{data[name].dtype.kind}{data[name].dtype.itemsize}"] for name in data}
            blocks.append({"name": leaf.name, "offered": offered, "other": list(other), "points": len(one["points"])})
            if found.hexdigest() != mesh:
                out |= {f"{place}/{name}": array for name, array in one.items()}
            out |= {f"{place}/values/{name}": _plain(data[name]) for name in arrays if name in data}
        facts = {"mesh": found.hexdigest(), "time": times.pop() if len(times) == 1 else None, "blocks": blocks}
        return facts, out

    def _reader(self, path: str, foam: bool) -> Any:
        if path not in self.open:
            self.open[path] = _foam_reader(path) if foam else _vtk_reader(self.pyvista, path)
        return self.open[path]

    def _times(self, reader: Any) -> list[float]:
        from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline as pipeline

        reader.UpdateInformation()
        information = reader.GetOutputInformation(0)
        key = pipeline.TIME_STEPS()
        return [float(time) for time in information.Get(key)] if information.Has(key) else []

    def _data(self, path: str, step: float | None, foam: bool, patches: bool) -> Any:
        reader = self._reader(path, foam)
        reader.UpdateInformation()
        if foam:
            reader.EnableAllCellArrays()
            for place in range(reader.GetNumberOfPatchArrays()):
                name = reader.GetPatchArrayName(place)
                reader.SetPatchArrayStatus(name, name == "internalMesh" or (patches and name.startswith("patch/")))
        if step is None:
            reader.Update()
        else:
            reader.UpdateTimeStep(step)
        return reader.GetOutputDataObject(0)

    def _leaves(self, data: Any) -> Iterator[Leaf]:
        """All meshes in it as unstructured grids."""
        if data is None:
            return
        if data.IsA("vtkCompositeDataSet"):
            walk = data.NewIterator()
            walk.InitTraversal()
            while not walk.IsDoneWithTraversal():
                about = walk.GetCurrentMetaData() if walk.HasCurrentMetaData() else None
                name = about.Get(data.NAME()) if about is not None and about.Has(data.NAME()) else ""
                yield from (Leaf(name or leaf.name, leaf.grid) for leaf in self._leaves(walk.GetCurrentDataObject()))
                walk.GoToNextItem()
        elif data.IsA("vtkDataSet"):
            grid = self.pyvista.wrap(data)
            yield Leaf("", grid if data.IsA("vtkUnstructuredGrid") else grid.cast_to_unstructured_grid())
        else:
            raise Refusal(f"holds a {data.GetClassName()}, which is no mesh")

    def _listen(self) -> None:
        """From here on VTK's messages are kept."""
        from vtkmodules.vtkCommonCore import vtkOutputWindow, vtkStringOutputWindow

        self.complaints.clear()
        self.window = vtkStringOutputWindow()
        self.window.AddObserver("ErrorEvent", self._complain)
        vtkOutputWindow.SetInstance(self.window)

    def _complain(self, *event: Any) -> None:
        self.complaints.append(_text(event[-1]) if len(event) > 2 else "")

    def _reason(self, start: int) -> str:
        """What VTK and the libraries below it called an error, in a line."""
        text = _text(self.window.GetOutput())
        lines = os.pread(2, _SAID, start).decode(errors="replace").splitlines()
        wrong = [line for line in lines if "XDMF Error" in line and _FINE not in line]
        wrong += [line for line in text.splitlines() if "Error" in line]  # some readers only warn of half an array
        if not self.complaints and not wrong:
            return ""
        return (
            " ".join(" ".join([*self.complaints[:1], *text.splitlines()[:3], *wrong[:1]]).split())[-400:] or "VTK met an error"
        )


def _vtk_reader(pyvista: Any, path: str) -> Any:
    reader = pyvista.get_reader(path).reader
    if reader.IsA("vtkExodusIIReader"):
        reader.ApplyDisplacementsOff()  # or points would move, and the field of displacements would be lost
        reader.UpdateInformation()
        for kind in (reader.NODAL, reader.ELEM_BLOCK):
            reader.SetAllArrayStatus(kind, 1)
    if reader.IsA("vtkCGNSReader"):
        reader.UpdateInformation()
        reader.EnableAllBases()
        reader.GetPointDataArraySelection().EnableAllArrays()
        reader.GetCellDataArraySelection().EnableAllArrays()
    return reader


def _foam_reader(case: str) -> Any:
    from vtkmodules.vtkIOGeometry import vtkOpenFOAMReader

    reader = vtkOpenFOAMReader()
    reader.SetFileName(os.path.join(case, "case.foam"))  # names the folder; there need be no such file
    reader.SkipZeroTimeOff()
    reader.CreateCellToPointOff()
    reader.Use64BitFloatsOn()
    return reader


def _listed(path: Path) -> list[dict[str, Any]]:
    """The frames of a .pvd or a .series file; several files at one time are parts of one frame."""
    frames: dict[float, list[str]] = {}
    if path.suffix == ".series":
        for entry in json.loads(path.read_text(encoding="utf-8"))["files"]:
            frames.setdefault(float(entry["time"]), []).append(str(entry["name"]))
    else:
        for entry in ElementTree.parse(path).getroot().iter("DataSet"):
            frames.setdefault(float(entry.attrib["timestep"]), []).append(entry.attrib["file"])
    return [
        {"time": time, "parts": [str(path.parent / name) for name in names], "step": None}
        for time, names in sorted(frames.items())
    ]


def _mesh(leaf: Leaf) -> Arrays:
    grid = leaf.grid
    found: Arrays = {"points": np.asarray(grid.points, dtype=np.float64)}
    found["connectivity"] = np.asarray(grid.cell_connectivity, dtype=np.int64)
    found["offsets"] = np.asarray(grid.offset, dtype=np.int64)
    found["types"] = np.asarray(grid.celltypes, dtype=np.uint8)
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def _text(said: Any) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def _plain(values: Any) -> np.ndarray:
    """Numbers as float32, float64 or int64."""
    found = np.asarray(values)
    if found.dtype.kind in "iub":
        return found.astype(np.int64)
    if found.dtype.kind != "f":
        raise Refusal(f"holds {found.dtype} instead of numbers")
    return np.ascontiguousarray(found, dtype=np.float32 if found.dtype.itemsize <= 4 else np.float64)


def _bound_memory() -> None:
    """A damaged file may ask for any amount; more than the machine has is refused by the allocator."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        resource.setrlimit(resource.RLIMIT_AS, (total, total))


def _send(out: BinaryIO, head: dict[str, Any], arrays: Arrays) -> None:
    head["arrays"] = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    out.write(json.dumps(head).encode() + b"\n")
    for array in arrays.values():
        out.write(np.ascontiguousarray(array).data)
    out.flush()


def main() -> None:
    warnings.simplefilter("ignore")
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    _bound_memory()
    reading = Reading()
    for line in requests:
        try:
            facts, arrays = reading.answer(json.loads(line))
            _send(answers, {"facts": facts}, arrays)
        except (Refusal, MemoryError) as refusal:
            reading.open.clear()
            _send(answers, {"refusal": str(refusal) or "asks for more memory than there is"}, {})


if __name__ == "__main__":
    main()
    sys.stdout = None
