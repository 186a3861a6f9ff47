"""Predictions as files for ParaView: VTK finds the surrogate's numbers, the truth and the error on the user's mesh."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.cli import main
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.errors import FileError, InputError
from calm_pde.export import sample_geometry
from calm_pde.export.arrays import named_arrays
from calm_pde.geometry import Box, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Trajectory
from calm_pde.surrogate.predict import predict
from tests.data.sets import own_source, shared_source
from tests.export.vtk import needed, read_steps, read_vtu
from tests.surrogate.test_surrogate import POINTS, STATE, one_thread, small_surrogate  # noqa: F401

OWN_BOX = Box((-1.0, 0.0), (1.0, 1.0))
TIMES = [0.0, 0.5, 1.0, 1.5, 2.0]


@pytest.fixture(scope="module")
def surrogate():
    return small_surrogate()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return write(shared_source(count=10), tmp_path_factory.mktemp("data") / "waves.h5")


def expected(surrogate, file, number):
    """The prediction with its initial state, and the truth, (time, point, field)."""
    given = file.trajectory(number)
    found = surrogate.solve(given.fields[0], file.description.points)
    return np.concatenate([given.fields[:1], found]).astype(np.float32), given.fields


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_grid_with_truth_and_error(surrogate, shared, tmp_path):
    steps = []
    first = predict(surrogate, shared.path, tmp_path / "y.vtkhdf", split="test", progress=lambda *step: steps.append(step))
    assert first == tmp_path / "y_0009.vtkhdf"  # the number in the data file
    assert steps == [(1, 1)]
    assert names_in(tmp_path) == ["y_0009.vtkhdf", "y_queries.vtkhdf"]
    predicted, truth = expected(surrogate, shared, 9)
    found = read_steps(first)
    assert [step.time for step in found] == TIMES
    for number, step in enumerate(found):
        order = np.lexsort((step.points[:, 1], step.points[:, 0]))  # ours: x slowest, y fastest
        np.testing.assert_allclose(step.points[order, :2], shared.description.points, atol=1e-12)
        for channel, name in enumerate("uv"):
            np.testing.assert_array_equal(step.arrays[name][order], predicted[number, :, channel])
            np.testing.assert_array_equal(step.arrays[f"{name}_truth"][order], truth[number, :, channel])
            difference = predicted[number, :, channel] - truth[number, :, channel]
            np.testing.assert_array_equal(step.arrays[f"{name}_error"][order], difference)
        assert len(step.arrays) == 6
    assert not found[0].arrays["u_error"].any()
    assert found[4].arrays["u_error"].any()


def test_without_truth_there_is_no_error(surrogate, shared, tmp_path):
    out = predict(surrogate, shared.path, tmp_path / "y.vtkhdf", split="test", times=[0.5, 0.7])
    assert [sorted(step.arrays) for step in read_steps(out)] == [["u", "v"]] * 3
    chosen = predict(surrogate, shared.path, tmp_path / "z.vtkhdf", split="test", times=[0.5, 1.5 + 1e-9])
    assert "v_truth" in read_steps(chosen)[2].arrays
    np.savez(tmp_path / "one.npz", initial=STATE, points=POINTS)
    out = predict(surrogate, tmp_path / "one.npz", tmp_path / "x.vtkhdf", times=[0.5, 1.5])
    assert out.name == "x_0000.vtkhdf"
    step = read_steps(out)[2]
    np.testing.assert_array_equal(step.points[:, :2], POINTS)
    solved = surrogate.solve(STATE, POINTS, [0.5, 1.5])[1]
    np.testing.assert_array_equal(np.stack([step.arrays["u"], step.arrays["v"]], axis=-1), solved)


def test_meshes_of_their_own(tmp_path):
    given = write(own_source(count=3), tmp_path / "bumps.h5")
    typed = small_surrogate(("u",), OWN_BOX, node_types=(0, 4, 6), spacing=1.0, num_frames=4)
    predict(typed, given.path, tmp_path / "y.vtkhdf")
    assert len(list(tmp_path.glob("y_0*.vtkhdf"))) == 3
    for number in (0, 2):
        known = given.trajectory(number)
        step = read_steps(tmp_path / f"y_{number:04d}.vtkhdf")[3]
        np.testing.assert_array_equal(step.points[:, :2], known.points)
        assert step.cells == [(5, corners) for corners in known.cells.tolist()]
        np.testing.assert_array_equal(step.arrays["node_type"], known.node_type)
        np.testing.assert_array_equal(step.arrays["u_truth"], known.fields[3, :, 0])
        solved = typed.solve(known.fields[0], known.points, node_type=known.node_type)
        np.testing.assert_array_equal(step.arrays["u"], solved[2, :, 0])


def test_a_series_of_vtu(surrogate, shared, tmp_path):
    first = predict(surrogate, shared.path, tmp_path / "y.vtu", split="test", times=[0.5, 1.0])
    assert first == tmp_path / "y_0009.pvd"
    steps = [f"y_0009_000{step}.vtu" for step in range(3)]
    assert names_in(tmp_path) == ["y_0009.pvd", *steps, "y_queries.vtu"]
    predicted, truth = expected(surrogate, shared, 9)
    for number, name in enumerate(steps):
        step = read_vtu(tmp_path / name)
        assert step.time == TIMES[number]
        np.testing.assert_allclose(step.arrays["u"], predicted[number, :, 0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(step.arrays["v_truth"], truth[number, :, 1])
    assert {kind for kind, _ in step.cells} == {9}
    assert read_vtu(tmp_path / "y_queries.vtu").arrays["layer"].max() == 1


def test_the_query_points_of_all_layers(surrogate, shared, tmp_path):
    predict(surrogate, shared.path, tmp_path / "y.vtkhdf", split="test", times=[0.5])
    (step,) = read_steps(tmp_path / "y_queries.vtkhdf")
    assert step.notes == {"encoder.0": 0, "decoder.0": 1}
    np.testing.assert_array_equal(step.arrays["layer"], [0] * 6 + [1] * 8)
    layers = [surrogate.model.encoder[0], surrogate.model.decoder[0]]
    unit = np.concatenate([layer.queries.detach().double().numpy() for layer in layers])
    np.testing.assert_allclose(step.points[:, :2], unit * [2.0, 1.0], rtol=1e-12)


def test_query_points_stay_in_a_periodic_box(shared, tmp_path):
    moved = small_surrogate()
    moved.model.encoder[0].queries.data[0] = moved.model.encoder[0].queries.data.new_tensor([-0.25, 1.5])
    predict(moved, shared.path, tmp_path / "y.vtkhdf", split="test", times=[0.5])
    (step,) = read_steps(tmp_path / "y_queries.vtkhdf")
    np.testing.assert_allclose(step.points[0], [1.5, 0.5, 0.0])


def test_on_the_users_mesh(surrogate, tmp_path):
    """From the command line: the answer stands on the mesh that was given, at its height, with its cells."""
    shared = write(shared_source(count=4), tmp_path / "waves.h5")
    surrogate.save(tmp_path / "surrogate")
    points = np.array([[0.1, 0.2, 3.0], [1.5, 0.2, 3.0], [1.5, 0.9, 3.0], [0.1, 0.9, 3.0]])
    blocks = [("line", np.array([[0, 1]])), ("triangle", np.array([[0, 1, 2], [0, 2, 3]]))]
    needed("meshlane").Mesh(points, blocks).write(tmp_path / "mesh.vtu")
    asked = ["--input", str(shared.path), "--queries", str(tmp_path / "mesh.vtu"), "--times", "0.7", "1.0"]
    for ending in ("vtkhdf", "h5"):
        main(["predict", str(tmp_path / "surrogate"), *asked, "--out", str(tmp_path / f"y.{ending}")])
    wanted = surrogate.solve(shared.trajectory(3).fields[0], shared.description.points, [0.7, 1.0], points[:, :2])
    found = read_steps(tmp_path / "y_0003.vtkhdf")
    assert [step.time for step in found] == [0.7, 1.0]
    for step, rows in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(step.points, points)
        assert step.cells == [(3, [0, 1]), (5, [0, 1, 2]), (5, [0, 2, 3])]
        np.testing.assert_array_equal(np.stack([step.arrays["u"], step.arrays["v"]], axis=-1), rows)
        assert len(step.arrays) == 2
    file = DataFile(tmp_path / "y.h5")
    np.testing.assert_array_equal(file.description.cells, [[0, 1, 2], [0, 2, 3]])
    np.testing.assert_array_equal(file.trajectory(3).fields, wanted)


def test_a_prediction_on_the_mesh_of_another(surrogate, shared, tmp_path):
    needed("meshlane")
    first = predict(surrogate, shared.path, tmp_path / "y.vtu", split="test", times=[0.5])
    again = predict(surrogate, shared.path, tmp_path / "z.vtkhdf", split="test", queries=first.with_name("y_0009_0001.vtu"))
    np.testing.assert_allclose(read_steps(again)[0].points, read_vtu(tmp_path / "y_0009_0001.vtu").points)


def test_damaged_queries_are_refused(shared, tmp_path, capsys):
    small_surrogate().save(tmp_path / "surrogate")
    (tmp_path / "mesh.vtu").write_text("<VTKFile type=")
    call = ["predict", str(tmp_path / "surrogate"), "--input", str(shared.path), "--out", str(tmp_path / "y.vtkhdf")]
    with pytest.raises(SystemExit) as ended:
        main([*call, "--queries", str(tmp_path / "mesh.vtu")])
    assert ended.value.code == 2
    assert "mesh.vtu: not a readable mesh" in " ".join(capsys.readouterr().err.split())
    assert not list(tmp_path.glob("y_*"))


@pytest.mark.parametrize("task", ["steady", "autoencoder"])
def test_without_time_there_is_one_step(tmp_path, task):
    still = small_surrogate(("v",), task=task, num_frames=1)
    initial = {} if task == "steady" else {"initial": STATE[:, 1:]}
    np.savez(tmp_path / "one.npz", points=POINTS, **initial)
    answer = still.solve(initial.get("initial"), POINTS)[0, :, 0]
    (step,) = read_steps(predict(still, tmp_path / "one.npz", tmp_path / "y.vtkhdf"))
    np.testing.assert_array_equal(step.arrays["v"], answer)
    assert step.notes == {"TimeValue": 0.0}
    predict(still, tmp_path / "one.npz", tmp_path / "y.vtu")
    np.testing.assert_array_equal(read_vtu(tmp_path / "y_0000_0000.vtu").arrays["v"], answer)


@pytest.mark.parametrize("ending", ["vtkhdf", "vtu"])
def test_whatever_is_in_the_way_is_said_first(surrogate, shared, tmp_path, ending, monkeypatch):
    for name in ("y_0007", "y_queries") if ending == "vtkhdf" else ("y_0007_0001", "y_queries"):
        blocker = tmp_path / f"{name}.{ending}"
        blocker.write_text("mine")
        with monkeypatch.context() as patch:
            patch.setattr(surrogate, "solve", None, raising=False)
            with pytest.raises(FileError, match=rf"{name}\.{ending}: exists already"):
                predict(surrogate, shared.path, tmp_path / f"y.{ending}", times=[0.5])
        assert names_in(tmp_path) == [blocker.name]
        assert blocker.read_text() == "mine"
        blocker.unlink()
    (tmp_path / f"y_queries.{ending}").write_text("mine")
    predict(surrogate, shared.path, tmp_path / f"y.{ending}", split="test", times=[0.5], overwrite=True)
    assert (tmp_path / f"y_queries.{ending}").stat().st_size > 100
    with pytest.raises(FileError, match="there is no such folder"):
        predict(surrogate, shared.path, tmp_path / "none" / f"y.{ending}")


def test_a_failure_leaves_whole_files_alone(surrogate, shared, tmp_path, monkeypatch):
    solve, calls = surrogate.solve, iter(range(10))

    def failing(*arguments, **options):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return solve(*arguments, **options)

    monkeypatch.setattr(surrogate, "solve", failing, raising=False)
    with pytest.raises(KeyboardInterrupt):
        predict(surrogate, shared.path, tmp_path / "y.vtkhdf")
    assert names_in(tmp_path) == ["y_0000.vtkhdf", "y_0001.vtkhdf"]
    assert len(read_steps(tmp_path / "y_0001.vtkhdf")) == 5


def test_other_sources_can_be_written_too(tmp_path):
    """Any description and trajectory: names that meet, and what does not fit."""
    points = tensor_grid(np.arange(3.0), np.arange(2.0))
    fields = (Field(name="u"), Field(name="u_error"), Field(name="node_type"))
    described = Description("d", fields, Box((0.0, 0.0), (2.0, 1.0)), np.zeros(1), points=points, node_type=np.arange(6))
    trajectory = Trajectory(np.arange(18.0).reshape(1, 6, 3))
    found = named_arrays(described, trajectory, np.zeros((1, 6, 3)))
    assert list(found)[:3] == ["u", "u_error", "node_type"]
    assert found.keys() >= {"u_error_2", "u_error_error", "node_type_2", "node_type_truth"}
    assert len(found) == 10
    for channel, field in enumerate(fields):
        np.testing.assert_array_equal(found[field.name], trajectory.fields[..., channel])
    np.testing.assert_array_equal(found["u_error_2"], found["u"])
    np.testing.assert_array_equal(found["node_type_2"], np.arange(6))
    with pytest.raises(InputError, match=r"truth: expected shape \(1, 6, 3\), got shape \(2, 6, 3\)"):
        named_arrays(described, trajectory, np.zeros((2, 6, 3)))
    assert sample_geometry(described, trajectory).num_points == 6
