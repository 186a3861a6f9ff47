"""Folders as people have them: tables, signals, regions, every so many frames, planes in space; and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calm_pde.cli.command import main
from calm_pde.data.convert import convert
from calm_pde.data.readers.simulations.vtk_files import VTKFiles
from calm_pde.data.storage import DataFile
from calm_pde.errors import CalmError
from calm_pde.export.cells import geometry_of
from calm_pde.export.vtkhdf import write_vtkhdf
from calm_pde.export.vtu import write_series
from tests.data.readers.simulations.files import TIMES, plane, state, states, temperature, velocity, write_vtu
from tests.export.vtk import needed

pytestmark = pytest.mark.usefixtures("process")

POWERS = {"a": 1.0, "b": 2.0, "c": 3.0}


def write_runs(root: Path, meshes: dict | None = None) -> None:
    """Three runs with a table and a signal each."""
    for number, (name, power) in enumerate(POWERS.items()):
        (root / name).mkdir(parents=True)
        write_vtu(root / name, states((meshes or {}).get(name) or plane(), power=power), TIMES)
        knots = "\n".join(f"{time},{300 + power * time}" for time in np.linspace(0, 1.75, 2 + number))
        (root / name / "signals.csv").write_text(f"time [s],wall [K]\n{knots}\n")
    rows = "\n".join(f"{name},{power},{part}" for (name, power), part in zip(POWERS.items(), PARTS, strict=True))
    (root / "samples.csv").write_text(f"sample,power [W],split\n{rows}\n")


PARTS = ("test", "train", "validation")


def read(path: Path, **options):
    source = VTKFiles(path=path, **options).source()
    return source.description, list(source.trajectories)


def refused(path: Path, **options) -> str:
    with pytest.raises(CalmError) as caught:
        read(path, **options)
    return str(caught.value)


def test_a_folder_becomes_a_data_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """With a mesh each, parameters, signals with knots of their own, units and splits."""
    write_runs(tmp_path / "runs", {"b": plane(7, 1), "c": plane(6, 2)})
    options = ["--fields", "T", "U", "--units", "T", "K", "--prescribed", "T"]
    main(["convert", "vtk", str(tmp_path / "runs"), "--out", str(tmp_path / "runs.h5"), *options])
    said = capsys.readouterr().out
    assert "3 samples with 4 frames at 30 to 56 points, a mesh each." in said
    assert "U_z: zero across the plane, and left out." in said
    with DataFile(tmp_path / "runs.h5") as file:
        about = file.description
        assert [str(field) for field in about.fields] == ["T [K]", "U_x", "U_y"]
        assert about.units == {"power": "W", "wall": "K"}
        assert [known.field for known in about.prescribed] == ["T"]
        for index, (power, count) in enumerate(zip(POWERS.values(), (5, 7, 6), strict=True)):
            trajectory = file.trajectory(index)
            assert trajectory.split == PARTS[index]
            np.testing.assert_array_equal(trajectory.parameters, [power])
            knots = np.linspace(0, 1.75, 2 + index)
            np.testing.assert_allclose(trajectory.signal_times, knots)
            np.testing.assert_allclose(trajectory.signals[:, 0], 300 + power * knots)
            assert len(trajectory.points) == count * (count + 1)
            places = np.pad(trajectory.points, ((0, 0), (0, 1)))
            np.testing.assert_allclose(trajectory.fields[2, :, 0], temperature(places, TIMES[2], power), atol=1e-12)


def test_frames_regions_cells_and_times(tmp_path: Path) -> None:
    """Half of the plane, values of its cells, every other frame without the first."""
    mesh = plane(9)
    write_vtu(tmp_path, states(mesh), TIMES)
    about, (found,) = read(tmp_path, region=(0, 1, 0, 1), every=2, skip=1)
    np.testing.assert_allclose(about.times, [TIMES[1], TIMES[3]])
    inside = np.asarray(mesh.points)[:, 0] <= 1
    np.testing.assert_array_equal(about.points, mesh.points[inside, :2])
    places = np.pad(about.points, ((0, 0), (0, 1)))
    np.testing.assert_allclose(found.fields[1, :, 0], temperature(places, TIMES[3]), atol=1e-12)
    kept = [cell for cell in mesh.cells_dict[5] if inside[cell].all()]
    number = np.cumsum(inside) - 1
    np.testing.assert_array_equal(np.sort(about.cells, axis=0), np.sort(number[kept], axis=0))
    about, (found,) = read(tmp_path, cells=True, time_step=0.1)
    np.testing.assert_allclose(about.times, [0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(about.points, mesh.cell_centers().points[:, :2], atol=1e-12)
    np.testing.assert_allclose(found.fields[0, :, 0], temperature(mesh.cell_centers().points, 0), atol=1e-12)
    assert about.cells is None


def test_samples_beside_each_other(tmp_path: Path) -> None:
    """Frames as name_0000.vtu without times, grouped by name; and our own series and VTKHDF files."""
    mesh = plane()
    for name, power in (("hot_run2", 2.0), ("hot_run10", 1.0)):
        for place, frame in enumerate(states(mesh, (0, 1, 2), power)):
            frame.save(tmp_path / f"{name}_{10 * place:04d}.vtu")
    (tmp_path / "samples.csv").write_text("sample;power\nhot_run10;1\nhot_run2;2\n")
    about, found = read(tmp_path, fields=("T",))
    np.testing.assert_array_equal(about.times, [0, 1, 2])
    assert any("--time-step" in note for note in about.provenance["notes"])
    np.testing.assert_array_equal([one.parameters for one in found], [[1], [2]])
    np.testing.assert_allclose(found[1].fields[1, :, 0], temperature(np.asarray(mesh.points), 1, 2), atol=1e-12)
    (tmp_path / "hot_run2_0010.vtu").unlink()
    (tmp_path / "hot_run2_0030.vtu").write_bytes((tmp_path / "hot_run2_0020.vtu").read_bytes())
    assert "hot_run2" in refused(tmp_path, fields=("T",))
    points, cells = np.asarray(mesh.points)[:, :2], mesh.cells_dict[5]
    arrays = {"T": np.stack([temperature(np.asarray(mesh.points), time) for time in TIMES])}
    for name, write in (("own.pvd", write_series), ("own.vtkhdf", write_vtkhdf)):
        (tmp_path / name.replace(".", "_")).mkdir()
        write(tmp_path / name.replace(".", "_") / name, geometry_of(points, cells), arrays, TIMES)
        about, (one,) = read(tmp_path / name.replace(".", "_"))
        np.testing.assert_allclose(about.times, TIMES)
        np.testing.assert_allclose(one.fields[..., 0], arrays["T"], atol=1e-12)


@pytest.mark.parametrize("kind", ["hexahedra", "wedges"])
def test_a_sheet_of_cells_becomes_a_plane(tmp_path: Path, kind: str) -> None:
    """Prisms over the triangles of a plane, or bricks, with two layers of points along y."""
    pyvista = needed("pyvista")
    if kind == "wedges":
        flat = plane()
        low, count = np.asarray(flat.points)[:, [0, 2, 1]], flat.n_points
        cells = np.concatenate([flat.cells_dict[5], flat.cells_dict[5] + count], axis=1)
        mesh = pyvista.UnstructuredGrid({13: cells}, np.concatenate([low, low + np.array([0, 0.2, 0])]))
    else:
        grid = np.meshgrid(np.linspace(0, 2, 5), [0.0, 0.2], np.linspace(0, 1, 4), indexing="ij")
        mesh = pyvista.StructuredGrid(*grid).cast_to_unstructured_grid()
    places = np.asarray(mesh.points)
    for place, time in enumerate(TIMES):
        mesh.point_data["U"] = velocity(places[:, [0, 2, 1]], time)[:, [0, 2, 1]]
        mesh.field_data["TimeValue"] = [time]
        mesh.save(tmp_path / f"sheet_{place}.vtu")
    about, (found,) = read(tmp_path)
    assert about.field_names == ("U_x", "U_z")
    assert about.points.shape == (len(places) // 2, 2)
    np.testing.assert_allclose(found.fields[2], velocity(about.points @ np.eye(2, 3), 1.0)[:, :2], atol=1e-6)
    sides = about.points[about.cells]
    edges = sides[:, 1:] - sides[:, :1]
    area = np.abs(edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0]) / 2
    np.testing.assert_allclose(area.sum(), 2, rtol=1e-6)
    assert any("one cell thick along y" in note for note in about.provenance["notes"])


def test_features_and_node_types(tmp_path: Path) -> None:
    for place, frame in enumerate(states(plane())):
        frame.point_data["conductivity"] = 1.0 + np.arange(frame.n_points)
        frame.point_data["node_type"] = (np.asarray(frame.points)[:, 0] < 1e-9).astype(np.int32) * 3
        frame.save(tmp_path / f"run_{place}.vtu")
    about, (found,) = read(tmp_path, features=("conductivity",), fields=("T",), node_types={3: "wall"}, prescribed=("T=wall",))
    np.testing.assert_array_equal(found.features[:, 0], 1.0 + np.arange(len(about.points)))
    assert about.node_types == {0: "type 0", 3: "wall"}
    assert about.prescribed[0].node_types == (3,)
    np.testing.assert_array_equal(about.node_type == 3, about.points[:, 0] == 0)


def change(path: Path, **arrays) -> None:
    mesh = needed("pyvista").read(path)
    for name, values in arrays.items():
        if values is None:
            del mesh.point_data[name]
        else:
            mesh.point_data[name] = values
    mesh.save(path)


WRONG = {
    "a missing field": (
        lambda at: change(at / "b" / "state_0002.vtu", T=None),
        "frame 2 of sample 'b', field 'T': is not there",
    ),
    "not a number": (
        lambda at: change(at / "b" / "state_0001.vtu", T=np.full(30, np.nan)),
        "b/state_0001.vtu, frame 1 of sample 'b', field 'T': 30 of 30 numbers are not finite",
    ),
    "another mesh in a sample": (
        lambda at: state(plane(6), TIMES[3]).save(at / "c" / "state_0003.vtu"),
        "c/state_0003.vtu, frame 3 of sample 'c': the mesh is another one than in frame 0 (state_0000.vtu): 42 points",
    ),
    "a frame less": (lambda at: (at / "b" / "state_0003.vtu").unlink(), "sample 'b' has 3 frames, and sample 'a' has 4"),
    "other fields": (lambda at: change(at / "b" / "state_0000.vtu", p=np.ones(30)), "--fields"),
    "swirl": (
        lambda at: change(at / "b" / "state_0002.vtu", U=np.ones((30, 3))),
        "field 'U_z': is up to 1, across the plane",
    ),
    "no file but a text": (lambda at: (at / "c" / "state_0001.vtu").write_text("hello"), "c/state_0001.vtu"),
    "a sample too much": (lambda at: write_vtu(_made(at / "d"), states(plane()), TIMES), "sample 'd': has no row"),
    "a row too much": (lambda at: _append(at / "samples.csv", "e,1,test"), "sample 'e': is not there"),
    "no number": (
        lambda at: _append(at / "samples.csv", "e,much,test"),
        "column 'power [W]', line 5: expected a finite number",
    ),
    "no part": (lambda at: _append(at / "samples.csv", "e,1,exam"), "column 'split', line 5: expected train, validation, test"),
    "a signal too short": (
        lambda at: (at / "b" / "signals.csv").write_text("time,wall [K]\n0,1\n1,2\n"),
        "b/signals.csv, times: expected knots from the first frame to the last, 0 to 1.75, got 0 to 1",
    ),
    "no signal": (lambda at: (at / "c" / "signals.csv").unlink(), "c/signals.csv: there is no such file"),
    "back in time": (
        lambda at: (at / "b" / "signals.csv").write_text("time,wall [K]\n0,1\n1,2\n1,2\n2,2\n"),
        "b/signals.csv, time in line 4: does not come later",
    ),
    "other times": (
        lambda at: write_vtu(at / "b", states(plane()), (0, 0.5, 1, 2)),
        "b/state_0003.vtu, frame 3 of sample 'b': is at time 2, and the first sample's at 1.75",
    ),
}


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _append(path: Path, row: str) -> None:
    path.write_text(path.read_text() + row + "\n")


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(tmp_path: Path, name: str) -> None:
    write_runs(tmp_path)
    spoil, words = WRONG[name]
    spoil(tmp_path)
    assert words in refused(tmp_path)


def test_what_is_asked_wrongly_is_named(tmp_path: Path) -> None:
    write_vtu(tmp_path, states(plane()), TIMES)
    assert "field 'temp': is not there" in refused(tmp_path, fields=("temp",))
    assert "none; they lie in [0, 2] × [0, 1]" in refused(tmp_path, region=(5, 6, 0, 1))
    assert "expected 4 numbers" in refused(tmp_path, region=(0, 1, 0, 1, 0, 1))
    assert "holds no frames that are kept" in refused(tmp_path, skip=4)
    assert "holds no files ending in" in refused(tmp_path / "none" if (tmp_path / "none").mkdir() is None else tmp_path)
    assert "--lower" in refused(tmp_path, periodic=(True,))
    assert "there is no such file or folder" in refused(tmp_path / "nowhere")


def test_without_the_extra_its_name_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calm_pde.data.readers.simulations.process.importlib.util.find_spec", lambda name: None)
    for kind in ("vtk", "openfoam"):
        with pytest.raises(CalmError, match=r"needs the extra `mesh`. Install it with: pip install 'calm-pde\[mesh\]'"):
            convert(kind, tmp_path / "x.h5", path=tmp_path)


def test_one_frame_in_memory_at_a_time(tmp_path: Path) -> None:
    """Samples are read when they are asked for: one that is damaged since does no harm to those before it."""
    write_runs(tmp_path)
    source = VTKFiles(path=tmp_path).source()
    (tmp_path / "b" / "state_0002.vtu").write_text("")
    trajectories = iter(source.trajectories)
    assert next(trajectories).fields.shape == (4, 30, 3)
    with pytest.raises(CalmError, match=r"b/state_0002.vtu"):
        next(trajectories)
