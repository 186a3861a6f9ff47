"""VTK, which reads back what the package wrote without it: an oracle that shares no code with the writers."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

EXTRAS = {"vtkmodules": "mesh", "pyvista": "mesh", "meshlane": "mesh"}


class Step(NamedTuple):
    """What one step shows: points (point, 3), cells as (type, corners), and the arrays over the points."""

    time: float | None
    points: np.ndarray
    cells: list[tuple[int, list[int]]]
    arrays: dict[str, np.ndarray]
    notes: dict[str, np.ndarray]


def needed(name: str) -> ModuleType:
    """A module of an extra; without it the test is skipped, but for continuous integration, where it fails."""
    try:
        return importlib.import_module(name)
    except ImportError:
        extra = EXTRAS[name.partition(".")[0]]
        reason = f"{name} is not installed; pip install 'calm-pde[{extra}]' brings it"
        if os.environ.get("CALM_CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def read_steps(path: Path) -> list[Step]:
    """All steps of a VTKHDF file, each asked for by its time, as ParaView does."""
    reader = needed("vtkmodules.vtkIOHDF").vtkHDFReader()
    reader.SetFileName(str(path))
    reader.UpdateInformation()
    pipeline = needed("vtkmodules.vtkCommonExecutionModel").vtkStreamingDemandDrivenPipeline
    times = reader.GetOutputInformation(0).Get(pipeline.TIME_STEPS())
    found = []
    for time in times or [None]:
        if time is None:
            reader.Update()
        else:
            reader.UpdateTimeStep(time)
        found.append(shown(reader.GetOutput(), time))
    return found


def read_vtu(path: Path) -> Step:
    reader = needed("vtkmodules.vtkIOXML").vtkXMLUnstructuredGridReader()
    reader.SetFileName(str(path))
    reader.Update()
    found = shown(reader.GetOutput(), None)
    return found._replace(time=found.notes["TimeValue"].item() if "TimeValue" in found.notes else None)


def shown(data: Any, time: float | None) -> Step:
    points = np.array([data.GetPoint(place) for place in range(data.GetNumberOfPoints())])
    cells = []
    for place in range(data.GetNumberOfCells()):
        cell = data.GetCell(place)
        corners = [cell.GetPointId(corner) for corner in range(cell.GetNumberOfPoints())]
        cells.append((data.GetCellType(place), corners))
    return Step(time, points, cells, _arrays(data.GetPointData()), _arrays(data.GetFieldData()))


def _arrays(group: Any) -> dict[str, np.ndarray]:
    to_numpy = needed("vtkmodules.util.numpy_support").vtk_to_numpy
    arrays = (group.GetArray(place) for place in range(group.GetNumberOfArrays()))
    return {array.GetName(): to_numpy(array).copy() for array in arrays}
