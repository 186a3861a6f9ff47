"""Series of frames in each format, written by VTK itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.export.vtk import needed

TIMES = (0.0, 0.5, 1.0, 1.75)


def plane(count: int = 5, seed: int = 0) -> Any:
    """A triangulated rectangle 2 × 1 at z = 0, with points moved at random inside."""
    pyvista = needed("pyvista")
    draw = np.random.default_rng(seed)
    grid = pyvista.Plane(center=(1, 0.5, 0), i_size=2, j_size=1, i_resolution=count, j_resolution=count - 1).triangulate()
    points = np.array(grid.points, dtype=np.float64)
    inside = (points[:, 0] > 1e-3) & (points[:, 0] < 2 - 1e-3) & (points[:, 1] > 1e-3) & (points[:, 1] < 1 - 1e-3)
    points[inside, :2] += draw.uniform(-0.05, 0.05, size=(int(inside.sum()), 2))
    points[:, 2] = 0
    return pyvista.UnstructuredGrid({5: np.array(grid.faces).reshape(-1, 4)[:, 1:]}, points)


def temperature(points: np.ndarray, time: float, power: float = 1.0) -> np.ndarray:
    return power * np.sin(points[:, 0] + time) + points[:, 1]


def velocity(points: np.ndarray, time: float) -> np.ndarray:
    return np.stack([points[:, 1] + time, -points[:, 0] * (1 + time), np.zeros(len(points))], axis=-1)


def state(mesh: Any, time: float, power: float = 1.0) -> Any:
    """The mesh with a scalar and a vector at points, and a scalar in cells."""
    found = mesh.copy()
    found.clear_data()
    found.point_data["T"] = temperature(np.asarray(mesh.points), time, power)
    found.point_data["U"] = velocity(np.asarray(mesh.points), time)
    found.cell_data["c"] = temperature(np.asarray(mesh.cell_centers().points), time, power)
    found.point_data.active_vectors_name = "U"
    return found


def states(mesh: Any, times: Sequence[float] = TIMES, power: float = 1.0) -> list[Any]:
    return [state(mesh, time, power) for time in times]


def moving(frames: Sequence[Any], times: Sequence[float]) -> Any:
    """A source of VTK's that has these frames at these times."""
    model = needed("vtkmodules.vtkCommonExecutionModel").vtkStreamingDemandDrivenPipeline
    core = needed("vtkmodules.vtkCommonDataModel").vtkDataObject
    base = needed("vtkmodules.util.vtkAlgorithm").VTKPythonAlgorithmBase

    class Moving(base):
        def RequestInformation(self, request, before, after):
            about = after.GetInformationObject(0)
            about.Set(model.TIME_STEPS(), list(times), len(times))
            about.Set(model.TIME_RANGE(), [times[0], times[-1]], 2)
            return 1

        def RequestData(self, request, before, after):
            about = after.GetInformationObject(0)
            time = about.Get(model.UPDATE_TIME_STEP()) if about.Has(model.UPDATE_TIME_STEP()) else times[0]
            out = about.Get(core.DATA_OBJECT())
            out.ShallowCopy(frames[int(np.argmin(np.abs(np.array(times) - time)))])
            out.GetInformation().Set(core.DATA_TIME_STEP(), time)
            return 1

    return Moving(nInputPorts=0, nOutputPorts=1, outputType="vtkUnstructuredGrid")


def _written(writer: Any, path: Path, frames: Sequence[Any], times: Sequence[float]) -> None:
    source = moving(frames, times)
    writer.SetInputConnection(source.GetOutputPort())
    writer.SetFileName(str(path))
    writer.SetWriteAllTimeSteps(True)
    writer.Write()


def write_vtu(folder: Path, frames: Sequence[Any], times: Sequence[float], how: str = "compressed") -> None:
    for place, (frame, time) in enumerate(zip(frames, times, strict=True)):
        frame.field_data["TimeValue"] = [time]
        writer = needed("vtkmodules.vtkIOXML").vtkXMLUnstructuredGridWriter()
        writer.SetInputData(frame)
        writer.SetFileName(str(folder / f"state_{place:04d}.vtu"))
        writer.SetDataModeToAscii() if how == "text" else writer.SetDataModeToAppended()
        writer.SetCompressorTypeToZLib() if how == "compressed" else writer.SetCompressorTypeToNone()
        writer.EncodeAppendedDataOff()
        writer.Write()


def write_legacy(folder: Path, frames: Sequence[Any], times: Sequence[float], binary: bool = True) -> None:
    for place, (frame, time) in enumerate(zip(frames, times, strict=True)):
        frame.field_data["TimeValue"] = [time]
        frame.save(folder / f"state_{place:04d}.vtk", binary=binary)


def write_vtp(folder: Path, frames: Sequence[Any], times: Sequence[float]) -> None:
    for place, (frame, time) in enumerate(zip(frames, times, strict=True)):
        surface = needed("pyvista").PolyData(frame.points, np.pad(frame.cells_dict[5], ((0, 0), (1, 0)), constant_values=3))
        for name in frame.point_data:
            surface.point_data[name] = frame.point_data[name]
        surface.cell_data["c"] = frame.cell_data["c"]
        surface.field_data["TimeValue"] = [time]
        surface.save(folder / f"state.{place}.vtp")


def write_pvd(folder: Path, frames: Sequence[Any], times: Sequence[float]) -> None:
    """Two files at each time, left and right, which share the points between them; they lie in a folder beside the list."""
    (folder / "parts").mkdir()
    rows = []
    for place, (frame, time) in enumerate(zip(frames, times, strict=True)):
        left = frame.cell_centers().points[:, 0] < 1
        for part, chosen in enumerate((left, ~left)):
            frame.extract_cells(np.flatnonzero(chosen)).save(folder / "parts" / f"state_{place}_{part}.vtu")
            rows.append(f'<DataSet timestep="{time!r}" part="{part}" file="parts/state_{place}_{part}.vtu"/>')
    text = '<?xml version="1.0"?>\n<VTKFile type="Collection" version="0.1"><Collection>' + "\n".join(rows)
    (folder / "all.pvd").write_text(text + "</Collection></VTKFile>")


def write_vtkhdf(folder: Path, frames: Sequence[Any], times: Sequence[float]) -> None:
    writer = needed("vtkmodules.vtkIOHDF").vtkHDFWriter()
    writer.SetChunkSize(100)
    _written(writer, folder / "all.vtkhdf", frames, times)


def write_xdmf(folder: Path, frames: Sequence[Any], times: Sequence[float]) -> None:
    _written(needed("vtkmodules.vtkIOXdmf2").vtkXdmfWriter(), folder / "all.xdmf", frames, times)


def write_exodus(folder: Path, frames: Sequence[Any], times: Sequence[float]) -> None:
    parallel = needed("vtkmodules.vtkParallelCore")  # without a controller VTK's writer crashes where it is the parallel one
    parallel.vtkMultiProcessController.SetGlobalController(parallel.vtkDummyController())
    writer = needed("vtkmodules.vtkIOExodus").vtkExodusIIWriter()
    writer.SetStoreDoubles(True)
    _written(writer, folder / "all.exo", frames, times)


def write_ensight(folder: Path, frames: Sequence[Any], times: Sequence[float]) -> None:
    """VTK's writer numbers the steps 0, 1, 2, …, so that the times are put into the file by hand."""
    writer = needed("vtkmodules.vtkIOParallel").vtkEnSightWriter()
    for place, frame in enumerate(frames):
        frame.cell_data["BlockId"] = np.ones(frame.n_cells, dtype=np.int64)
        writer.SetInputData(frame)
        writer.SetFileName(str(folder / "all"))
        writer.SetTimeStep(place)
        writer.Write()
    writer.WriteCaseFile(len(frames))
    (case,) = folder.glob("*.case")
    before, told, _ = case.read_text().partition("time values:")
    case.write_text(f"{before}{told} {' '.join(map(repr, times))}\n")


FORMATS: dict[str, Callable[[Path, Sequence[Any], Sequence[float]], None]] = {
    "vtu": partial(write_vtu, how="plain"),
    "vtu text": partial(write_vtu, how="text"),
    "vtu compressed": write_vtu,
    "legacy": write_legacy,
    "legacy text": partial(write_legacy, binary=False),
    "vtp": write_vtp,
    "pvd": write_pvd,
    "vtkhdf": write_vtkhdf,
    "xdmf": write_xdmf,
    "exodus": write_exodus,
    "ensight": write_ensight,
}
