"""Damaged files: the program lives, the file is named, and what can be told from the right answer is never taken for it."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from calm_pde.data.readers.simulations import simulation
from calm_pde.data.readers.simulations.openfoam import OpenFOAM
from calm_pde.data.readers.simulations.process import ReadingProcess
from calm_pde.data.readers.simulations.vtk_files import VTKFiles
from calm_pde.errors import FileError
from calm_pde.records.description import Description
from calm_pde.records.trajectory import Trajectory
from tests.damage import DAMAGES, damaged
from tests.data.readers.simulations.files import FORMATS, TIMES, plane, states
from tests.data.readers.simulations.openfoam import write_case
from tests.data.readers.simulations.test_openfoam import FIELDS

CHECKED = ("vtu compressed",)
"""Formats with a checksum of their numbers."""

Read = tuple[Description, Trajectory]


def write(folder: Path, name: str) -> None:
    folder.mkdir(parents=True)
    if name == "openfoam":
        write_case(folder / "run", (0, 0.5, 1), FIELDS)
    else:
        (folder / "run").mkdir()
        FORMATS[name](folder / "run", states(plane(4), TIMES), TIMES)


def read(folder: Path, name: str) -> Read:
    fields = {"openfoam": ("p", "U"), "ensight": ("T_n", "U_n")}.get(name, ("T", "U"))
    reader = OpenFOAM(path=folder, fields=fields) if name == "openfoam" else VTKFiles(path=folder, fields=fields)
    source = reader.source()
    (trajectory,) = source.trajectories
    return source.description, trajectory


def mutate(folder: Path, number: int) -> tuple[Path, str]:
    """Damage one file in a way that depends on the number alone."""
    draw, kind = np.random.default_rng(number), DAMAGES[number % len(DAMAGES)]
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "controlDict")
    path = files[int(draw.integers(len(files)))]
    path.write_bytes(damaged(path.read_bytes(), kind, draw, most=200))
    return path, kind


def outcome(folder: Path, name: str, wanted: Read) -> str:
    """`error MESSAGE`, `same`, `numbers` where only numbers have changed, or `silent`: what a look at it can tell."""
    try:
        about, found = read(folder, name)
    except FileError as error:
        return f"error {error}"
    right, first = wanted
    alike = found.fields.shape == first.fields.shape and about.field_names == right.field_names
    alike = alike and (about.cells is None) == (right.cells is None) and np.isfinite(found.fields).all()
    if not alike or about.points is None or about.points.shape != right.points.shape or not (np.diff(about.times) > 0).all():
        return "silent"
    pairs = ((found.fields, first.fields), (about.points, right.points), (about.times, right.times), (about.cells, right.cells))
    return "same" if all(np.array_equal(one, other) for one, other in pairs) else "numbers"


def check(tmp_path: Path, count: int) -> Counter[str]:
    """`count` damaged copies of each format."""
    total: Counter[str] = Counter()
    for place, name in enumerate((*FORMATS, "openfoam")):
        write(tmp_path / name / "whole", name)
        wanted = read(tmp_path / name / "whole", name)
        for number in range(place, place + count):
            copy = tmp_path / name / f"mutant_{number}"
            shutil.copytree(tmp_path / name / "whole", copy)
            path, kind = mutate(copy, number)
            told = outcome(copy, name, wanted)
            word = told.partition(" ")[0]
            total[word] += 1
            where = f"{name}, mutant {number}, {kind} of {path.name}: {told}"
            assert word != "silent", where
            assert word != "error" or f"mutant_{number}" in told, where
            assert word != "numbers" or (name not in CHECKED and kind != "truncate"), where
            shutil.rmtree(copy)
    return total


def test_damaged_files_are_refused(tmp_path: Path, process: ReadingProcess) -> None:
    total = check(tmp_path, 4)
    assert total["error"] > 0.4 * total.total()


@pytest.mark.slow
def test_five_hundred_damaged_files_are_refused(tmp_path: Path, process: ReadingProcess) -> None:
    total = check(tmp_path, 50)
    assert total.total() >= 500
    assert total["error"] > 0.5 * total.total()


def test_a_process_that_is_gone_is_begun_anew(tmp_path: Path, process: ReadingProcess) -> None:
    write(tmp_path / "good", "vtu")
    found = read(tmp_path / "good", "vtu")[1]
    process.close()
    np.testing.assert_array_equal(found.fields, read(tmp_path / "good", "vtu")[1].fields)


def test_a_source_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its last trajectory, and where nobody wants another one."""
    begun = []
    monkeypatch.setattr(simulation, "ReadingProcess", lambda patience: begun.append(ReadingProcess(patience)) or begun[-1])
    write(tmp_path / "all", "vtu")
    for last in (True, False):
        trajectories = iter(VTKFiles(path=tmp_path / "all").source().trajectories)
        next(trajectories)
        assert begun[-1].running
        assert next(trajectories, None) is None if last else trajectories.close() is None
        assert not begun[-1].running
    assert len(begun) == 2


PROGRAMS = {
    "dies": ("os.abort()", r"reading it ended the process that did so \(SIGABRT"),
    "leaves": ("sys.exit('out of luck')", r"\(exit code 1: out of luck\)"),
    "waits": ("time.sleep(60)", r"still being read after 0.5 s \(--patience\)"),
    "raves": ("print('hello')", "gave an answer that makes no sense"),
    "stops halfway": ("""print('{"facts": {}, "arrays": [["a", "<f8", [9]]]}')""", "ended the process"),
    "brings objects": ("""print('{"facts": {}, "arrays": [["a", "|O", [9]]]}')""", "makes no sense .an array of |O"),
    "brings too much": (
        """print('{"facts": {}, "arrays": [["a", "<f8", [%d]]]}' % 10**30)""",
        "makes no sense|ended the process",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_whatever_the_process_does_the_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    does, words = PROGRAMS[name]
    (tmp_path / "child.py").write_text(f"import os, sys, time\nsys.stdin.readline()\n{does}\n")
    monkeypatch.setattr("calm_pde.data.readers.simulations.process._PROGRAM", tmp_path / "child.py")
    start = time.monotonic()
    with ReadingProcess(0.5 if name == "waits" else 20.0) as process:
        for _ in range(2):  # anew each time
            with pytest.raises(FileError, match=f"a.vtu, frame 3: .*{words}"):
                process.ask(Path("a.vtu"), "frame 3", {})
    assert time.monotonic() - start < 60


def test_what_lists_files_that_are_not_there_is_named(tmp_path: Path) -> None:
    write(tmp_path / "all", "pvd")
    (tmp_path / "all" / "run" / "parts" / "state_2_1.vtu").unlink()
    with pytest.raises(FileError, match=r"state_2_1.vtu, frame 2 of sample 'run': there is no such file"):
        read(tmp_path / "all", "pvd")
