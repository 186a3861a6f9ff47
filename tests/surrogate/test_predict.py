"""Prediction from file to file: the same numbers as `solve`, files that can be read back, and errors that name the array."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.data.check import check
from calm_pde.data.readers.arrays import Arrays
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.errors import DivergedError, FileError, InputError, TrainingRangeWarning
from calm_pde.geometry import Box
from calm_pde.records.description import Field
from calm_pde.surrogate.evaluate import evaluate
from calm_pde.surrogate.predict import predict
from calm_pde.surrogate.surrogate import Surrogate
from tests.data.sets import own_source, shared_source
from tests.surrogate.test_surrogate import POINTS, STATE, cloud, one_thread, small_surrogate  # noqa: F401

OWN_BOX = Box((-1.0, 0.0), (1.0, 1.0))


@pytest.fixture(scope="module")
def surrogate():
    return small_surrogate()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return write(shared_source(count=10), tmp_path_factory.mktemp("data") / "waves.h5")


@pytest.fixture
def one(tmp_path):
    """One initial condition."""
    path = tmp_path / "one.npz"
    np.savez(path, initial=STATE, points=POINTS)
    return path


def test_a_data_file_becomes_another(surrogate, shared, tmp_path):
    out = predict(surrogate, shared.path, tmp_path / "out.h5")
    file = DataFile(out)
    assert len(file) == 10
    np.testing.assert_array_equal(file.times, [0.0, 0.5, 1.0, 1.5, 2.0])
    np.testing.assert_array_equal(file.splits, shared.splits)
    for index in range(10):
        given, found = shared.trajectory(index), file.trajectory(index)
        np.testing.assert_array_equal(found.fields[0], given.fields[0])
        np.testing.assert_array_equal(found.fields[1:], surrogate.solve(given.fields[0], shared.description.points))
        np.testing.assert_array_equal(found.parameters, given.parameters)
        assert found.seconds > 0
    header = file.header
    assert (header.fields, header.conserved, header.grid_shape) == (surrogate.card.fields, ("u",), (6, 6))
    assert not [finding for finding in check(file) if finding.level == "wrong"]


@pytest.mark.filterwarnings("ignore::calm_pde.errors.TrainingRangeWarning")
@pytest.mark.parametrize("ending", [".h5", ".npz", ".vtu"])
def test_a_prediction_that_is_not_finite_is_refused_by_its_sample(surrogate, tmp_path, ending):
    np.savez(tmp_path / "two.npz", initial=np.stack([STATE, STATE * 1e30]), points=POINTS)
    out = tmp_path / f"out{ending}"
    with pytest.raises(DivergedError, match=r"sample 1 is not finite at t = 0\.5 \(time 1 of 4\).*--allow-nonfinite"):
        predict(surrogate, tmp_path / "two.npz", out)
    if ending == ".npz":
        assert not out.exists()
        with np.load(predict(surrogate, tmp_path / "two.npz", out, allow_nonfinite=True)) as written:
            assert np.isfinite(written["fields"][0]).all()
            assert not np.isfinite(written["fields"][1]).all()


def test_fields_are_taken_by_name(shared, tmp_path):
    second = small_surrogate(("v",))
    file = DataFile(predict(second, shared.path, tmp_path / "out.h5", split="test"))
    initial = shared.trajectory(int(shared.indices("test")[0])).fields[0, :, 1:]
    np.testing.assert_array_equal(file.trajectory(0).fields[0], initial)
    np.testing.assert_array_equal(file.trajectory(0).fields[1:], second.solve(initial, shared.description.points))
    assert file.header.conserved == ()


def test_the_answers_are_the_surrogates_own_truth(surrogate, shared, tmp_path):
    """A prediction evaluated by the surrogate that made it has no error: times, places and units went round."""
    out = predict(surrogate, shared.path, tmp_path / "out.h5", split="test", times=[0.5, 1.0, 1.25, 2.0])
    file = DataFile(out)
    assert len(file) == len(shared.indices("test"))
    found = evaluate(surrogate, file)
    assert found.times == (0.5, 1.0, 1.25, 2.0)
    assert found.relative_l2.mean < 1e-5


def test_the_provenance_names_surrogate_and_input(surrogate, shared, tmp_path):
    made = [
        DataFile(predict(maker, shared.path, tmp_path / f"{place}.h5", split="test", times=[0.5])).header.provenance
        for place, maker in enumerate((surrogate, small_surrogate(), small_surrogate(seed=1)))
    ]
    assert made[0]["input"] == {"name": "waves.h5", "fingerprint": shared.fingerprint}
    assert made[0]["surrogate"]["kind"] == "calm"
    assert (made[0]["surrogate"]["data"], made[0]["surrogate"]["seed"]) == ("00", 3)
    weights = [provenance["surrogate"]["weights"] for provenance in made]
    assert weights[0] == weights[1] != weights[2]


def test_queries_have_the_asked_times_alone(surrogate, shared, tmp_path):
    asked = cloud(9, seed=3)
    np.save(tmp_path / "asked.npy", asked)
    np.savez(tmp_path / "asked.npz", points=asked)
    for name in ("asked.npy", "asked.npz"):
        out = predict(surrogate, shared.path, tmp_path / "out.h5", times=[0.7, 1.0], queries=tmp_path / name, overwrite=True)
        file = DataFile(out)
        np.testing.assert_array_equal(file.times, [0.7, 1.0])
        np.testing.assert_array_equal(file.description.points, asked)
        initial = shared.trajectory(3).fields[0]
        expected = surrogate.solve(initial, shared.description.points, [0.7, 1.0], asked)
        np.testing.assert_array_equal(file.trajectory(3).fields, expected)
        assert file.header.grid_shape is None


def test_meshes_of_their_own_stay_so(tmp_path):
    given = write(own_source(), tmp_path / "bumps.h5")
    typed = small_surrogate(("u",), OWN_BOX, node_types=(0, 4, 6))
    file = DataFile(predict(typed, given.path, tmp_path / "out.h5"))
    for index in (0, 9):
        old, new = given.trajectory(index), file.trajectory(index)
        for name in ("points", "cells", "node_type"):
            np.testing.assert_array_equal(getattr(old, name), getattr(new, name))
        np.testing.assert_array_equal(new.fields[1:], typed.solve(old.fields[0], old.points, node_type=old.node_type))
    plain = DataFile(predict(small_surrogate(("u",), OWN_BOX), given.path, tmp_path / "plain.h5"))
    assert plain.header.arrays == ("cells",)
    with pytest.raises(InputError, match=r"meshes differ in size, got .*out\.npz.* \.h5"):
        predict(typed, given.path, tmp_path / "out.npz")
    assert not (tmp_path / "out.npz").exists()


def test_arrays_in_arrays_out(surrogate, one, tmp_path):
    out = predict(surrogate, one, tmp_path / "out.npz", times=[0.5, 1.5])
    with np.load(out) as found:
        assert set(found) == {"fields", "points", "times"}
        assert found["fields"].shape == (1, 3, 40, 2)
        np.testing.assert_array_equal(found["fields"][0, 0], STATE.astype(np.float32))
        np.testing.assert_array_equal(found["fields"][0, 1:], surrogate.solve(STATE, POINTS, [0.5, 1.5]))
        np.testing.assert_array_equal(found["times"], [0.0, 0.5, 1.5])
    source = Arrays(path=out, periodic=(True,), lower=(0.0, 0.0), upper=(2.0, 1.0)).source()
    assert source.count == 1
    np.testing.assert_array_equal(source.description.points, POINTS)


@pytest.mark.parametrize("suffix", ["h5", "npz"])
def test_samples_on_one_mesh_and_on_their_own(surrogate, tmp_path, suffix):
    states, clouds = np.stack([STATE, STATE[::-1]]), np.stack([POINTS, cloud(seed=8)])
    for points in (POINTS, clouds):
        np.savez(tmp_path / "many.npz", initial=states, points=points)
        out = predict(surrogate, tmp_path / "many.npz", tmp_path / f"out.{suffix}", times=[0.5], overwrite=True)
        for index in range(2):
            expected = surrogate.solve(states[index], points if points.ndim == 2 else points[index], [0.5])[0]
            if suffix == "h5":
                found = DataFile(out).trajectory(index).fields
            else:
                with np.load(out) as content:
                    found = content["fields"][index]
                    np.testing.assert_array_equal(content["points"], points)
            np.testing.assert_array_equal(found[1], expected)


def test_node_types_in_arrays(tmp_path):
    typed = small_surrogate(node_types=(0, 4))
    kinds = np.where(POINTS[:, 0] > 1, 4, 0)
    states = np.stack([STATE, STATE])
    for given in (kinds, np.stack([kinds, 4 - kinds])):
        np.savez(tmp_path / "typed.npz", initial=states, points=POINTS, node_type=given)
        file = DataFile(predict(typed, tmp_path / "typed.npz", tmp_path / "out.h5", times=[0.5], overwrite=True))
        for index in range(2):
            expected = typed.solve(STATE, POINTS, [0.5], node_type=given if given.ndim == 1 else given[index])
            np.testing.assert_array_equal(file.trajectory(index).fields[1:], expected)


@pytest.mark.parametrize("features", [(), ("u", "v")])
def test_steady_surrogates(tmp_path, features):
    steady = small_surrogate(("v",), task="steady", features=features, num_frames=1)
    initial = {"initial": STATE} if features else {}
    np.savez(tmp_path / "one.npz", points=POINTS, **initial)
    file = DataFile(predict(steady, tmp_path / "one.npz", tmp_path / "out.h5"))
    expected = steady.solve(STATE if features else None, POINTS)
    np.testing.assert_array_equal(file.trajectory(0).fields, expected)
    assert file.description.steady
    again = DataFile(predict(steady, tmp_path / "out.h5", tmp_path / "again.h5"))
    np.testing.assert_allclose(again.trajectory(0).fields, expected, rtol=1e-5)


def test_an_autoencoder_answers_at_time_0(one, tmp_path):
    small = small_surrogate(task="autoencoder")
    file = DataFile(predict(small, one, tmp_path / "out.h5"))
    np.testing.assert_array_equal(file.times, [0.0])
    np.testing.assert_array_equal(file.trajectory(0).fields, small.solve(STATE, POINTS))


def test_an_existing_file_is_kept(surrogate, one, tmp_path):
    for name in ("out.h5", "out.npz"):
        out = predict(surrogate, one, tmp_path / name, times=[0.5])
        before = out.read_bytes()
        with pytest.raises(FileError, match="exists already"):
            predict(surrogate, one, out, times=[0.5])
        with pytest.raises(InputError, match="times"):
            predict(surrogate, one, out, times=[0.5, 0.1], overwrite=True)
        with pytest.warns(TrainingRangeWarning, match="times reach 9"):
            predict(surrogate, one, tmp_path / f"late {name}", times=[9.0])
        assert out.read_bytes() == before


def test_progress_counts_samples(surrogate, shared, tmp_path):
    steps = []
    predict(surrogate, shared.path, tmp_path / "out.h5", times=[0.5], progress=lambda *step: steps.append(step))
    assert steps == [(place, 10) for place in range(1, 11)]


def test_more_than_fifty_files_have_to_be_asked_for(surrogate, tmp_path):
    given = write(shared_source(count=51), tmp_path / "many.h5")
    folder = tmp_path / "out"
    folder.mkdir()
    solved = []
    for out in (folder / "y.vtkhdf", folder / "y.vtu"):
        with pytest.raises(InputError, match=r"got 51 samples .* with --split or --samples, or say --all"):
            predict(surrogate, given.path, out, times=[0.5], progress=lambda *step: solved.append(step))
    assert not solved
    assert not list(folder.iterdir())
    for options, count in (
        ({"samples": 2}, 2),
        ({"split": "test"}, 5),
        ({"split": "test", "samples": 1}, 1),
        ({"all": True}, 51),
    ):
        predict(surrogate, given.path, folder / "y.vtkhdf", times=[0.5], overwrite=True, **options)
        assert len(list(folder.glob("y_0*.vtkhdf"))) == count
        for path in folder.iterdir():
            path.unlink()


def test_only_the_first_samples(surrogate, shared, tmp_path):
    whole = DataFile(predict(surrogate, shared.path, tmp_path / "whole.h5", times=[0.5]))
    few = DataFile(predict(surrogate, shared.path, tmp_path / "few.h5", times=[0.5], samples=3))
    assert (len(whole), len(few)) == (10, 3)
    assert (few.digests == whole.digests[:3]).all()
    assert len(DataFile(predict(surrogate, shared.path, tmp_path / "more.h5", times=[0.5], samples=99))) == 10
    with pytest.raises(InputError, match="samples: expected at least 1, got 0"):
        predict(surrogate, shared.path, tmp_path / "none.h5", samples=0)


WRONG = {
    "no initial": ({"points": POINTS}, r"wrong\.npz, array initial: is missing; there are points"),
    "no points": ({"initial": STATE}, "array points: is missing"),
    "misspelt": ({"initial": STATE, "point": POINTS}, "array point: is not known.*'points'"),
    "one channel": (
        {"initial": STATE[:, :1], "points": POINTS},
        r"array initial: .*\(40, 2\).*channels u, v, got shape \(40, 1\)",
    ),
    "3-D": ({"initial": STATE, "points": np.zeros((40, 3))}, r"array points: expected \(point, 2\) or.*got shape \(40, 3\)"),
    "NaN": ({"initial": STATE * np.nan, "points": POINTS}, "array initial: holds something else than finite numbers"),
    "words": ({"initial": STATE, "points": np.array([["a", "b"]])}, "array points: holds something else"),
    "objects": ({"initial": STATE, "points": np.array([None])}, "not a readable NumPy file"),
    "counts": (
        {"initial": STATE[None].repeat(3, 0), "points": POINTS[None].repeat(2, 0)},
        r"samples are counted differently: initial 3, points 2",
    ),
    "node types": ({"initial": STATE, "points": POINTS, "node_type": np.zeros(3, int)}, "array node_type: expected one code"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_that_do_not_fit_are_named(surrogate, tmp_path, name):
    arrays, message = WRONG[name]
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(FileError, match=message):
        predict(surrogate, tmp_path / "wrong.npz", tmp_path / "out.h5")
    assert not (tmp_path / "out.h5").exists()


def test_files_that_do_not_fit_are_named(surrogate, shared, one, tmp_path):
    out = tmp_path / "out.h5"
    (tmp_path / "noise.npz").write_bytes(b"PK\x03\x04 and nothing else")
    np.save(tmp_path / "line.npy", np.zeros((4, 1)))
    for given, message in (
        ("absent.npz", "no such file"),
        ("absent.h5", "no such file"),
        ("noise.npz", "not a readable NumPy"),
    ):
        with pytest.raises(FileError, match=message):
            predict(surrogate, tmp_path / given, out)
    with pytest.raises(FileError, match=r"line\.npy, array points: expected \(point, 2\), got shape \(4, 1\)"):
        predict(surrogate, one, out, queries=tmp_path / "line.npy")
    small = small_surrogate(("u",))
    other = Surrogate(small.model, small.card.model_copy(update={"fields": (Field(name="w"),)}))
    with pytest.raises(FileError, match="fields: holds u, v, and the surrogate was trained on w"):
        predict(other, shared.path, out)
    with pytest.raises(InputError, match=r"out: .*\.h5, \.npz, \.vtkhdf or \.vtu, got .*out\.csv"):
        predict(surrogate, one, tmp_path / "out.csv")
    assert not out.exists()
