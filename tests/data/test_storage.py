"""A data file gives back what was written, window by window, and refuses what it is not."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
from pathlib import Path

import h5py
import numpy as np
import pytest

from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.errors import FileError, InputError
from calm_pde.records.description import Prescribed
from calm_pde.records.symmetry import Symmetry
from calm_pde.records.trajectory import SPLITS, Source
from tests.data.sets import own_source, shared_source
from tests.files.links import WAYS_OUT, lead_out

SOURCES = {"shared": shared_source, "own": own_source, "signals": lambda: shared_source(signals=("pump", "valve"))}
ARRAYS = ("fields", "points", "cells", "node_type", "features", "parameters", "signals", "signal_times")


@pytest.mark.parametrize("kind", SOURCES)
def test_round_trip_is_exact(kind: str, tmp_path: Path) -> None:
    file = write(SOURCES[kind](), tmp_path / "a.h5")
    wanted = SOURCES[kind]()
    assert len(file) == wanted.count
    for index, trajectory in enumerate(wanted.trajectories):
        found = file.trajectory(index)
        assert found.split == trajectory.split
        assert file.verify(index)
        for name in ARRAYS:
            value, back = getattr(trajectory, name), getattr(found, name)
            assert (value is None) == (back is None), name
            if value is not None:
                np.testing.assert_array_equal(back, value)
    description = file.description
    for name in ("name", "fields", "box", "node_types", "features", "parameters", "conserved", "grid_shape", "provenance"):
        assert getattr(description, name) == getattr(wanted.description, name), name
    np.testing.assert_array_equal(description.times, wanted.description.times)
    assert file.verify_fingerprint()


def test_later_names_stand_in_the_file_only_where_there_are_some(tmp_path: Path) -> None:
    """Otherwise header and fingerprint are what they were before these names were known."""
    later = {
        "signals": ("pump",),
        "prescribed": (Prescribed(field="v", node_types=(6,)),),
        "symmetries": (Symmetry(name="half turn", axes=(-1, -2)),),
    }
    plain, full = write(shared_source(), tmp_path / "a.h5"), write(shared_source(**later), tmp_path / "b.h5")
    first = "format version name fields lower upper periodic shared_mesh arrays node_types features targets parameters"
    known = [*first.split(), "conserved", "grid_shape", "provenance"]
    for file, keys in ((plain, known), (full, [*later, *known])):
        with h5py.File(file.path) as raw:
            assert list(json.loads(raw["header"][()].tobytes())) == keys
        assert sorted(json.loads(file.header.hashed())) == sorted(keys)
        assert file.verify_fingerprint()
    for name, names in later.items():
        assert getattr(full.description, name) == names
        assert getattr(plain.description, name) == ()
    assert full.fingerprint != plain.fingerprint
    assert (plain.header.version, full.header.version) == (1, 2)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("window", [slice(1, 3), slice(0, None, 2), slice(3, 4), slice(None)])
def test_a_window_is_that_part_of_the_whole(kind: str, window: slice, tmp_path: Path) -> None:
    file = write(SOURCES[kind](), tmp_path / "a.h5")
    for index in (0, 3, 9):
        np.testing.assert_array_equal(file.trajectory(index, window).fields, file.trajectory(index).fields[window])


def test_every_array_has_a_checksum(tmp_path: Path) -> None:
    write(own_source(), tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert all(isinstance(found, h5py.Dataset) and found.fletcher32 for found in file.values())


def test_splits_are_80_10_10_in_order(tmp_path: Path) -> None:
    file = write(shared_source(20), tmp_path / "a.h5")
    assert [len(file.indices(split)) for split in SPLITS] == [16, 2, 2]
    assert file.indices("test").tolist() == [18, 19]


def test_fingerprint_is_of_content_and_not_of_place_or_time(tmp_path: Path) -> None:
    def fingerprint(name: str, source: Source) -> str:
        return write(source, tmp_path / name).fingerprint

    def renamed(**changes: object) -> Source:
        source = shared_source()
        return Source(dataclasses.replace(source.description, **changes), source.trajectories, source.count)

    def slower() -> Source:
        source = shared_source()
        return Source(source.description, [dataclasses.replace(t, seconds=9.0) for t in source.trajectories], source.count)

    def moved() -> Source:
        source = shared_source()
        split = [dataclasses.replace(t, split="test") for t in source.trajectories]
        return Source(source.description, split, source.count)

    first = fingerprint("a.h5", shared_source())
    assert fingerprint("b.h5", shared_source()) == first
    assert fingerprint("c.h5", slower()) == first
    assert fingerprint("d.h5", renamed(provenance={"seed": 0, "host": "here", "created": "now"})) == first
    others = [
        fingerprint("e.h5", shared_source(seed=1)),
        fingerprint("f.h5", renamed(provenance={"seed": 1})),
        fingerprint("g.h5", renamed(name="other")),
        fingerprint("h.h5", moved()),
        fingerprint("i.h5", renamed(times=np.arange(5.0))),
    ]
    assert len({first, *others}) == 6


def test_digest_of_a_trajectory_is_the_documented_hash(tmp_path: Path) -> None:
    """An independent reader can check a file with docs/data_format.md alone."""
    file = write(shared_source(), tmp_path / "a.h5")
    found = file.trajectory(2)
    total = hashlib.sha256()
    for name, array in (("fields", found.fields), ("parameters", found.parameters)):
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode() + array.tobytes())
    with h5py.File(tmp_path / "a.h5") as raw:
        assert raw["digests"][2].tobytes() == total.digest()


def test_knots_of_their_own_are_rows_with_offsets(tmp_path: Path) -> None:
    """As docs/data_format.md has it; signals without times stand at the frames."""
    path, source = tmp_path / "a.h5", shared_source(signals=("pump",))
    given = list(source.trajectories)
    frames = np.cos(source.description.times)[:, None]
    given[4] = dataclasses.replace(given[4], signals=frames, signal_times=None)
    file = write(Source(source.description, given, 10), path)
    with h5py.File(path) as raw:
        rows, knots, starts = (raw[name][()] for name in ("signals", "signal_times", "signal_offsets"))
    assert (rows.dtype, knots.dtype, starts.dtype) == (np.float64, np.float64, np.int64)
    assert np.diff(starts).tolist() == [3, 4, 5, 6, 5, 4, 5, 6, 3, 4]
    for index, trajectory in enumerate(given):
        part = slice(starts[index], starts[index + 1])
        np.testing.assert_array_equal(rows[part], trajectory.signals)
        wanted = source.description.times if index == 4 else trajectory.signal_times
        np.testing.assert_array_equal(knots[part], wanted)
        assert file.verify(index)
    other = dataclasses.replace(given[2], signals=given[2].signals + 1e-9)
    assert (
        write(Source(source.description, [*given[:2], other, *given[3:]], 10), tmp_path / "b.h5").fingerprint
        != file.fingerprint
    )


def test_units_of_conditions_make_version_2(tmp_path: Path) -> None:
    file = write(shared_source(units={"phase": "rad"}), tmp_path / "a.h5")
    assert (file.header.version, file.description.units) == (2, {"phase": "rad"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signals": None, "signal_times": None}, r"trajectory 0, signal_times: expected shape \(0,\), got nothing"),
        ({"signals": np.zeros((2, 2))}, r"trajectory 0, signals: expected shape \(3, 1\), got shape \(2, 2\)"),
        ({"signal_times": np.array([0.0, 1, 1])}, "signal_times: expected finite, strictly increasing numbers, got others"),
        ({"signal_times": np.array([0.0, 1, np.nan])}, "signal_times: expected finite, strictly increasing"),
        ({"signal_times": np.array([0.0, 1, 1.9])}, "knots from the first frame to the last, 0 to 2, got 0 to 1.9"),
        ({"signal_times": np.array([0.1, 1, 2])}, "knots from the first frame to the last, 0 to 2, got 0.1 to 2"),
    ],
)
def test_knots_that_do_not_fit_are_refused(change: dict, message: str, tmp_path: Path) -> None:
    source = shared_source(signals=("pump",))
    changed = [dataclasses.replace(trajectory, **change) for trajectory in source.trajectories]
    with pytest.raises(InputError, match=message):
        write(Source(source.description, changed, 10), tmp_path / "a.h5")


def test_interrupted_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    before = write(shared_source(), path).fingerprint
    source = shared_source(seed=1)

    def failing() -> object:
        yield next(iter(source.trajectories))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(Source(source.description, failing(), 2), path, overwrite=True)
    assert DataFile(path).fingerprint == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.h5"]
    with pytest.raises(FileError, match="exists already"):
        write(shared_source(), path)


def test_a_worker_opens_the_file_for_itself(tmp_path: Path) -> None:
    file = write(own_source(), tmp_path / "a.h5")
    copy = pickle.loads(pickle.dumps(file))
    np.testing.assert_array_equal(copy.trajectory(1).fields, file.trajectory(1).fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fields": np.zeros((5, 36, 3), np.float32)}, r"trajectory 0, fields: expected shape \(5, 36, 2\), got shape"),
        ({"fields": np.full((5, 36, 2), "x")}, "fields: expected numbers"),
        ({"points": np.zeros((36, 2))}, "points: expected no mesh beside the shared one"),
        ({"parameters": None}, "parameters: expected shape .*, got nothing"),
        ({"features": np.zeros((36, 1))}, "features: expected nothing"),
    ],
)
def test_writer_refuses_what_the_description_does_not_announce(change: dict, message: str, tmp_path: Path) -> None:
    source = shared_source()
    changed = [dataclasses.replace(trajectory, **change) for trajectory in source.trajectories]
    with pytest.raises(InputError, match=message):
        write(Source(source.description, changed, 10), tmp_path / "a.h5")
    assert not list(tmp_path.iterdir())


def test_empty_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one"):
        write(Source(shared_source().description, [], 0), tmp_path / "a.h5")


def _edit(path: Path, name: str, values: np.ndarray | None) -> None:
    with h5py.File(path, "a") as file:
        if name in file:
            del file[name]
        if values is not None:
            file.create_dataset(name, data=values, chunks=values.shape, fletcher32=True)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("fields", None, "dataset fields: is missing"),
        ("fields", np.zeros((10, 5, 36, 3), np.float32), r"dataset fields: expected shape \(10, 5, 36, 2\)"),
        ("fields", np.full((10, 5, 36, 2), b"x"), "dataset fields: expected numbers of kind 'f'"),
        ("times", np.array([0.0, 1, 2, 2, 3]), "dataset times: .* strictly increasing"),
        ("split", np.full(10, 7, np.uint8), "dataset split: expected 0, 1 or 2"),
        ("header", np.frombuffer(b"{", np.uint8), "dataset header: not JSON"),
        ("header", np.frombuffer(b"[1]", np.uint8), "dataset header: does not say format"),
        ("header", np.frombuffer(b'{"format": "calm-pde data", "nam": 1}', np.uint8), "Did you mean 'name'"),
        ("digests", np.zeros((10, 16), np.uint8), "dataset digests"),
    ],
)
def test_wrong_contents_are_named(name: str, values: np.ndarray | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write(shared_source(), path).close()
    _edit(path, name, values)
    with pytest.raises(FileError, match=message) as error:
        DataFile(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("name", ["header", "fields", "fingerprint"])
@pytest.mark.parametrize("way", WAYS_OUT)
def test_what_leads_out_of_the_file_is_refused(name: str, way: str, tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write(shared_source(), path).close()
    lead_out(path, name, way)
    with pytest.raises(FileError, match=rf"a\.h5, {name}: {way}"):
        DataFile(path)


def test_a_link_that_nothing_needs_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write(shared_source(), path).close()
    with h5py.File(path, "a") as file:
        file["more"] = h5py.ExternalLink("there_is_none.h5", "/")
    with pytest.raises(FileError, match="more: is an external link to / in there_is_none"):
        DataFile(path)


def test_wrong_offsets_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    file = write(own_source(), path)
    starts = np.concatenate([[0], np.cumsum(file.num_points)])
    file.close()
    starts[3] = starts[5]
    _edit(path, "point_offsets", starts)
    with pytest.raises(FileError, match="point_offsets: expected increasing offsets"):
        DataFile(path)


def test_foreign_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such file"):
        DataFile(tmp_path / "none.h5")
    (tmp_path / "text.h5").write_text("<html>not found</html>")
    with pytest.raises(FileError, match="not a readable HDF5 file"):
        DataFile(tmp_path / "text.h5")
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["tensor"] = np.zeros(3)
    with pytest.raises(FileError, match="header"):
        DataFile(tmp_path / "foreign.h5")
    file = write(shared_source(), tmp_path / "a.h5")
    with pytest.raises(InputError, match="index: expected 0 … 9, got 10"):
        file.trajectory(10)


def test_header_is_readable_by_any_program(tmp_path: Path) -> None:
    write(shared_source(), tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        header = json.loads(file["header"][()].tobytes())
    assert header["fields"] == [{"name": "u", "unit": "m/s"}, {"name": "v", "unit": ""}]
    assert header["periodic"] == [True, True]
