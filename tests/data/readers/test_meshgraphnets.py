"""MeshGraphNets: exact arrays, the paper's frames, meshes of their own or one for all, and files that do not fit together."""

from __future__ import annotations

import json

import numpy as np
import pytest

from calm_pde.data.dataset import Dataset
from calm_pde.data.readers import MeshGraphNets
from calm_pde.data.writing import write
from calm_pde.errors import FileError
from calm_pde.train.config import load_recipe, model_config
from tests.data.readers.files import example, framed, mesh_meta, mesh_sample, write_meshgraphnets

PARTS = {"train": "train", "valid": "validation", "test": "test"}


def test_cylinder(tmp_path):
    samples = write_meshgraphnets(tmp_path)
    source = MeshGraphNets(path=tmp_path).source()
    described = source.description
    assert [field.name for field in described.fields] == ["velocity_x", "velocity_y", "pressure"]
    assert (described.box.lower, described.box.upper, described.box.periodic) == ((0, 0), (1.6, 0.4), (False, False))
    assert described.points is None
    assert described.cells is None
    np.testing.assert_array_equal(described.times, 0.01 * np.array([0, 40, 80]))
    assert described.node_types == {0: "normal", 4: "inflow", 5: "outflow", 6: "wall"}
    expected = [(sample, split) for name, split in PARTS.items() for sample in samples[name]]
    found = list(source.trajectories)
    assert source.count == len(found) == len(expected) == 6
    for trajectory, (sample, split) in zip(found, expected, strict=True):
        assert trajectory.split == split
        np.testing.assert_array_equal(trajectory.fields[..., :2], sample["velocity"][[0, 40, 80]])
        np.testing.assert_array_equal(trajectory.fields[..., 2:], sample["pressure"][[0, 40, 80]])
        np.testing.assert_array_equal(trajectory.points, sample["mesh_pos"][0])
        np.testing.assert_array_equal(trajectory.cells, sample["cells"][0])
        np.testing.assert_array_equal(trajectory.node_type, sample["node_type"][0, :, 0])


def test_airfoil_has_one_mesh_and_the_papers_channels(tmp_path):
    samples = write_meshgraphnets(tmp_path, density=True)
    source = MeshGraphNets(path=tmp_path).source()
    described = source.description
    assert [field.name for field in described.fields] == ["velocity_x", "velocity_y", "density", "pressure"]
    assert (described.box.lower, described.box.upper) == ((-20, -20), (20, 20))
    sample = samples["train"][0]
    np.testing.assert_array_equal(described.points, sample["mesh_pos"][0])
    np.testing.assert_array_equal(described.cells, sample["cells"][0])
    np.testing.assert_array_equal(described.node_type, sample["node_type"][0, :, 0])
    first = next(iter(source.trajectories))
    assert first.points is None
    np.testing.assert_array_equal(first.fields[..., 2:3], sample["density"][::40])
    np.testing.assert_array_equal(first.fields[..., 3:], sample["pressure"][::40])


@pytest.mark.parametrize(("frames", "kept", "density"), [(600, 15, False), (601, 16, True)])
def test_the_papers_number_of_frames(tmp_path, frames, kept, density):
    write_meshgraphnets(tmp_path, frames, density)
    source = MeshGraphNets(path=tmp_path, samples=1).source()
    assert len(source.description.times) == kept
    assert [trajectory.fields.shape[0] for trajectory in source.trajectories] == [kept] * 3


def test_options(tmp_path):
    samples = write_meshgraphnets(tmp_path)
    source = MeshGraphNets(path=tmp_path, samples=2, frame_stride=7, height=0.41).source()
    assert source.description.box.upper == (1.6, 0.41)
    assert [trajectory.split for trajectory in source.trajectories] == ["train", "train", "validation", "test", "test"]
    first = next(iter(MeshGraphNets(path=tmp_path, frame_stride=7).source().trajectories))
    np.testing.assert_array_equal(first.fields[..., :2], samples["train"][0]["velocity"][::7])


def test_the_cylinder_recipe_fits_a_converted_file(tmp_path):
    """The paper's model, parameter for parameter."""
    write_meshgraphnets(tmp_path)
    write(MeshGraphNets(path=tmp_path).source(), tmp_path / "c.h5")
    config = model_config(load_recipe("cylinder_2d"), Dataset(tmp_path / "c.h5"))
    assert sum(parameter.numel() for parameter in config.build().parameters()) == 2_239_403


def test_another_mesh_where_one_was_promised(tmp_path):
    write_meshgraphnets(tmp_path, density=True)
    other = mesh_sample(9, 81, 4, True) | {"mesh_pos": mesh_sample(9, 81, 4, False)["mesh_pos"]}
    (tmp_path / "valid.tfrecord").write_bytes(framed(example({key: array.tobytes() for key, array in other.items()})))
    with pytest.raises(FileError, match=r"valid\.tfrecord, record 0: has another mesh"):
        list(MeshGraphNets(path=tmp_path).source().trajectories)
    found = list(MeshGraphNets(path=tmp_path, shared_mesh=False).source().trajectories)
    np.testing.assert_array_equal(found[3].points, other["mesh_pos"][0])


def test_a_flipped_byte_names_the_record_and_no_verify_says_so(tmp_path):
    samples = write_meshgraphnets(tmp_path)
    path = tmp_path / "train.tfrecord"
    whole = bytearray(path.read_bytes())
    whole[bytes(whole).index(samples["train"][1]["velocity"].tobytes())] ^= 1
    path.write_bytes(whole)
    with pytest.raises(FileError, match=r"train\.tfrecord, record 1: the checksum"):
        list(MeshGraphNets(path=tmp_path).source().trajectories)
    source = MeshGraphNets(path=tmp_path, verify=False).source()
    assert len(list(source.trajectories)) == 6
    assert source.description.provenance["checksums"] == "lengths verified, payloads not"


@pytest.mark.parametrize("name", ["meta.json", "train.tfrecord", "valid.tfrecord", "test.tfrecord"])
def test_a_missing_file_is_named(tmp_path, name):
    write_meshgraphnets(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FileError, match=rf"{name}: there is no such file"):
        MeshGraphNets(path=tmp_path).source()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"dt": "fast"}, "entry 'dt': expected int or float, got 'fast'"),
        ({"dt": -1}, "expected positive 'dt'"),
        ({"trajectory_length": None}, "entry 'trajectory_length'"),
        ({"trajectory_length": True}, "entry 'trajectory_length'"),
        ({"features": []}, "entry 'features'"),
        ({"trajectory_length": 80}, r"feature 'velocity': expected the shape \[80"),
        ({"velocity": {"type": "static"}}, "feature 'velocity': expected the type 'dynamic'"),
        ({"velocity": {"dtype": "object"}}, "feature 'velocity': cannot read the dtype 'object'"),
        ({"velocity": {"dtype": ["float32"]}}, "feature 'velocity': cannot read the dtype"),
        ({"velocity": {"shape": [81, -1, 3]}}, "feature 'velocity': expected the shape"),
        ({"velocity": {"shape": [81, "n", 2]}}, "feature 'velocity': expected the shape"),
        ({"velocity": {"shape": [81, 50, 2]}}, "record 0, feature 'velocity': 1944 bytes do not fill"),
        ({"velocity": {"dtype": "float64"}}, "record 0, feature 'velocity': 1944 bytes do not fill|has .* nodes"),
        ({"cells": None}, "entry 'cells'"),
    ],
)
def test_meta_that_does_not_fit(tmp_path, change, problem):
    write_meshgraphnets(tmp_path)
    meta = mesh_meta(81, False)
    for key, value in change.items():
        if key in meta:
            meta[key] = value
        else:
            meta["features"][key] = value and meta["features"][key] | value
    (tmp_path / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(FileError, match=problem):
        list(MeshGraphNets(path=tmp_path).source().trajectories)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"pressure": None}, "record 0, feature 'pressure': there is none"),
        ({"pressure": b""}, "record 0, feature 'pressure'"),
        ({"pressure": b"123"}, "record 0, feature 'pressure': 3 bytes"),
        ({"pressure": bytes(81 * 4 * 2)}, "record 0, feature 'pressure': has 2 nodes, but 'mesh_pos' has 3"),
        ({"cells": np.full((1, 1, 3), 3, "<i4").tobytes()}, "record 0, feature 'cells': names nodes 3 to 3 of a mesh of 3"),
        ({"cells": np.full((1, 1, 3), -1, "<i4").tobytes()}, "record 0, feature 'cells': names nodes -1"),
    ],
)
def test_records_that_do_not_fit(tmp_path, change, problem):
    write_meshgraphnets(tmp_path)
    octets = {key: array.tobytes() for key, array in mesh_sample(1, 81, 3, False).items()} | change
    (tmp_path / "train.tfrecord").write_bytes(
        framed(example({key: value for key, value in octets.items() if value is not None}))
    )
    with pytest.raises(FileError, match=problem):
        list(MeshGraphNets(path=tmp_path).source().trajectories)


@pytest.mark.parametrize("content", ["[]", "{", "nul", '{"dt": NaN, "trajectory_length": 2, "features": {}}', "\xff"])
def test_meta_that_is_no_meta(tmp_path, content):
    write_meshgraphnets(tmp_path)
    (tmp_path / "meta.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(FileError, match=r"meta\.json"):
        MeshGraphNets(path=tmp_path).source()
