"""OpenFOAM cases come back, serial and decomposed, in planes and in space, with patches and without.

VTK reads them in single precision.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from calm_pde.data.readers.simulations.openfoam import OpenFOAM
from calm_pde.errors import FileError
from tests.data.readers.simulations.openfoam import Block, Value, write_case

pytestmark = pytest.mark.usefixtures("process")

TIMES = (0, 0.5, 1)


def pressure(points: np.ndarray, time: float) -> np.ndarray:
    return np.cos(points[:, 0]) * (1 + time) + points[:, 1] + 2 * points[:, 2]


def velocity(points: np.ndarray, time: float) -> np.ndarray:
    return np.stack([points[:, 1] * time, points[:, 0] - time, np.zeros(len(points))], axis=-1)


FIELDS: dict[str, Value] = {"p": pressure, "U": velocity}


def read(path: Path, **options):
    source = OpenFOAM(path=path, **options).source()
    return source.description, list(source.trajectories)


def wanted(points: np.ndarray, height: float) -> np.ndarray:
    places = np.column_stack([points, np.full(len(points), height)])
    return np.stack([np.column_stack([pressure(places, t), velocity(places, t)[:, :2]]) for t in TIMES])


@pytest.mark.parametrize("processors", [1, 2, 3])
def test_a_case_one_cell_thick_becomes_a_plane(tmp_path: Path, processors: int) -> None:
    centers = write_case(tmp_path / "case", TIMES, FIELDS, processors=processors)
    about, (trajectory,) = read(tmp_path / "case", fields=("p", "U"))
    np.testing.assert_allclose(about.points, centers[:, :2], atol=1e-6)
    assert about.field_names == ("p", "U_x", "U_y")
    np.testing.assert_allclose(about.times, TIMES)
    np.testing.assert_allclose(trajectory.fields, wanted(about.points, 0.05), atol=1e-6)
    assert any("z is constant: 2-D" in note for note in about.provenance["notes"])


def test_a_case_in_space_keeps_three_axes(tmp_path: Path) -> None:
    centers = write_case(tmp_path / "case", TIMES, FIELDS, Block((3, 2, 2), (1.0, 1.0, 1.0)))
    about, (trajectory,) = read(tmp_path / "case", fields=("U_z", "p"))
    np.testing.assert_allclose(about.points, centers, atol=1e-6)
    np.testing.assert_allclose(trajectory.fields[..., 1], [pressure(centers, t) for t in TIMES], atol=1e-6)
    assert not trajectory.fields[..., 0].any()


@pytest.mark.parametrize("processors", [1, 2])
def test_patches_bring_the_values_at_the_boundary(tmp_path: Path, processors: int) -> None:
    """4 × 3 cells have 3 + 3 + 8 faces around; front and back are none of the plane's."""
    write_case(tmp_path / "case", TIMES, FIELDS, processors=processors)
    about, (trajectory,) = read(tmp_path / "case", fields=("p", "U"), patches=True)
    assert about.points.shape == (12 + 14, 2)
    np.testing.assert_allclose(trajectory.fields, wanted(about.points, 0.05), atol=1e-6)
    counts = {about.node_types[code]: int((about.node_type == code).sum()) for code in np.unique(about.node_type)}
    assert counts == {"inside": 12, "inlet": 3, "outlet": 3, "walls": 8}
    names = np.array([about.node_types[code] for code in about.node_type])
    assert (about.points[names == "inlet", 0] == 0).all()
    assert (about.points[names == "outlet", 0] == 2).all()


def test_a_folder_of_cases_with_a_table(tmp_path: Path) -> None:
    for name, speed in (("slow", 1.0), ("fast", 3.0)):
        scaled: dict[str, Value] = {"U": lambda points, time, speed=speed: speed * velocity(points, time)}
        write_case(tmp_path / name, TIMES, scaled, processors=2 if name == "fast" else 1)
        (tmp_path / name / "signals.csv").write_text(f"time [s],inflow [m/s]\n0,{speed}\n0.3,{2 * speed}\n1,0\n")
    (tmp_path / "samples.csv").write_text("sample,speed [m/s],split\nslow,1,train\nfast,3,test\n")
    about, found = read(tmp_path)
    assert about.parameters == ("speed",)
    assert about.signals == ("inflow",)
    assert about.units == {"speed": "m/s", "inflow": "m/s"}
    assert [one.split for one in found] == ["train", "test"]
    np.testing.assert_array_equal([one.parameters for one in found], [[1], [3]])
    np.testing.assert_array_equal(found[1].signals, [[3], [6], [0]])
    np.testing.assert_array_equal(found[1].signal_times, [0, 0.3, 1])
    assert about.points is None  # the order of the cells differs where a case is decomposed
    at = {tuple(np.round(point, 9)): place for place, point in enumerate(found[1].points)}
    order = [at[tuple(np.round(point, 9))] for point in found[0].points]
    np.testing.assert_allclose(found[1].fields[:, order], 3 * found[0].fields, atol=1e-6)


def test_what_ran_on_processors_is_read_from_there(tmp_path: Path) -> None:
    """decomposePar leaves the mesh and the time 0 in the case itself."""
    case = tmp_path / "case"
    write_case(case, TIMES, FIELDS, processors=2)
    write_case(tmp_path / "whole", TIMES[:1], FIELDS)
    for name in ("constant", "0"):
        shutil.copytree(tmp_path / "whole" / name, case / name)
    assert len(read(case)[0].times) == 3
    shutil.rmtree(case / "processor1" / "0.5")
    with pytest.raises(FileError, match="processor1: has 2 times, processor0 has 3, or others"):
        read(case)
    assert len(read(case, decomposed=False)[0].times) == 1


def test_wrong_cases_are_named(tmp_path: Path) -> None:
    case = tmp_path / "case"
    write_case(case, TIMES, FIELDS)
    (case / "0.5" / "p").unlink()
    with pytest.raises(FileError, match=r"case, frame 1 of sample 'case', field 'p': is not there.*Here are: U"):
        read(case)
    text = (case / "1" / "U").read_text()
    (case / "1" / "U").write_text(text[: len(text) // 2])
    with pytest.raises(FileError, match="case, frame 2 of sample 'case'"):
        read(case, fields=("U",))
    (case / "constant" / "polyMesh" / "faces").unlink()
    with pytest.raises(FileError, match="case"):
        read(case)
    with pytest.raises(FileError, match="holds no OpenFOAM case"):
        read(tmp_path / "case" / "system")


def test_cases_are_told_from_other_folders(tmp_path: Path) -> None:
    write_case(tmp_path / "cases" / "one", TIMES[:1], FIELDS, processors=2)
    assert OpenFOAM.takes(tmp_path / "cases")
    assert OpenFOAM.takes(tmp_path / "cases" / "one")
    assert not OpenFOAM.takes(tmp_path / "cases" / "one" / "system")
    assert not OpenFOAM.takes(tmp_path / "none")
