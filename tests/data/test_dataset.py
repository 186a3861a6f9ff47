"""Windows, batches and statistics of a split."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from calm_pde.data.dataset import Dataset
from calm_pde.data.statistics import Statistics, statistics
from calm_pde.data.windows import Window, epoch_windows, grouped, whole_windows
from calm_pde.data.writing import write
from calm_pde.errors import ConfigError, FileError, InputError
from calm_pde.models import CalmConfig
from calm_pde.records.description import Field
from calm_pde.records.signals import Signals
from calm_pde.records.trajectory import Source
from tests.data.sets import own_source, shared_source


def _dataset(tmp_path: Path, make: Callable = shared_source, split: str = "train", **options: object) -> Dataset:
    path = tmp_path / "a.h5"
    if not path.exists():
        write(make(20), path).close()
    return Dataset(path, split, **options)


def test_its_description_is_that_of_the_fields_and_frames_taken(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, fields=["v"], frame_stride=2)
    assert dataset.description.fields == (Field(name="v"),)
    assert dataset.description.conserved == ()
    np.testing.assert_array_equal(dataset.description.times, [0.0, 1.0, 2.0])
    assert (dataset.fields, dataset.spacing, dataset.num_frames) == (("v",), 1.0, 3)
    assert dataset.description.points is dataset.file.description.points


def test_a_batch_of_a_shared_mesh(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path)
    batch = next(dataset.batches([[Window(3, 1, 2), Window(0, 2, 2)]]))
    whole = dataset.file.trajectory(3)
    assert batch.fields.shape == (2, 2, 36, 2)
    np.testing.assert_array_equal(batch.fields[0].numpy(), whole.fields[1:3])
    assert batch.samples.tolist() == [3, 0]
    assert batch.starts.tolist() == [1, 2]
    assert batch.times.tolist() == [0, 1]  # frames, whatever the file's spacing
    assert batch.points.shape == (36, 2)
    assert batch.points.min() == 0
    assert batch.points.max() == pytest.approx(5 / 6)  # unit coordinates of the box [0, 2) × [0, 1)
    assert batch.mask is None
    assert batch.parameters is not None


def test_a_batch_of_own_meshes_is_padded_and_masked(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, own_source)
    windows = [Window(position, 0, 4) for position in range(6)]
    batch = next(dataset.batches([windows]))
    sizes = dataset.file.num_points[:6]
    assert batch.mask is not None
    assert batch.mask.sum(dim=1).tolist() == sizes.tolist()
    assert batch.points.shape == (6, sizes.max(), 2)
    for row, size in enumerate(sizes):
        found = dataset.file.trajectory(row)
        np.testing.assert_array_equal(batch.fields[row, :, :size].numpy(), found.fields)
        assert not batch.fields[row, :, size:].any()
        wanted = dataset.box.to_unit(found.points).astype(np.float32)
        np.testing.assert_array_equal(batch.points[row, :size].numpy(), wanted)
        np.testing.assert_array_equal(batch.node_type[row, :size].numpy(), found.node_type)


def test_a_model_takes_a_batch_and_ignores_its_padding(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, own_source)
    model = CalmConfig.preset("cylinder_2d", in_channels=1, out_channels=1, node_types=(0, 4, 6)).build(seed=0)
    alone = next(dataset.batches([[Window(2, 0, 4)]]))
    many = next(dataset.batches([[Window(position, 0, 4) for position in range(5)]]))
    with torch.no_grad():
        one = model(alone.fields[:, 0], alone.points, 2, mask=alone.mask, node_type=alone.node_type)
        all_of_them = model(many.fields[:, 0], many.points, 2, mask=many.mask, node_type=many.node_type)
    torch.testing.assert_close(all_of_them[2:3, :, : one.shape[2]], one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_the_order_asked(workers: int, tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, own_source)
    windows = grouped(epoch_windows(len(dataset), 4, 2, seed=3, epoch=5, random_starts=True), 3)
    found = [(batch.samples.tolist(), batch.starts.tolist()) for batch in dataset.batches(windows, workers)]
    assert found == [([w.position for w in group], [w.start for w in group]) for group in windows]


def test_by_default_every_trajectory_whole(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, split="validation")
    assert [batch.samples.tolist() for batch in dataset.batches()] == [[16], [17]]


def test_frame_stride_and_choice_of_fields(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, frame_stride=2, fields=["v"])
    assert dataset.num_frames == 3
    assert dataset.spacing == 1.0
    np.testing.assert_array_equal(dataset[Window(1, 1, 2)]["fields"].numpy(), dataset.file.trajectory(1).fields[2:5:2, :, 1:])


def test_uneven_times_are_told_in_median_frames(tmp_path: Path) -> None:
    write(shared_source(20, times=np.array([0.0, 1, 2, 3, 5])), tmp_path / "a.h5")
    dataset = Dataset(tmp_path / "a.h5")
    assert not dataset.even
    batch = next(dataset.batches([[Window(0, 2, 3), Window(1, 2, 3)]]))
    assert batch.times.tolist() == [0, 1, 3]
    with pytest.raises(InputError, match="one start per batch"):
        next(dataset.batches([[Window(0, 2, 3), Window(1, 1, 3)]]))


def test_signals_are_told_in_frames_from_the_window_and_padded(tmp_path: Path) -> None:
    """The map of times is that of the frames, uneven or not; a row with fewer knots goes on level, a frame apart."""
    times = np.array([1.0, 1.5, 2.0, 3.0, 4.5])
    write(shared_source(20, times=times, signals=("pump",)), tmp_path / "a.h5")
    dataset = Dataset(tmp_path / "a.h5")
    assert dataset.spacing == 0.75
    batch = next(dataset.batches([[Window(0, 2, 3), Window(3, 2, 3)]]))
    assert batch.signals.shape == (2, 6, 1)
    for row, position in enumerate((0, 3)):
        found = dataset.file.trajectory(position)
        count = len(found.signal_times)
        np.testing.assert_allclose(batch.signal_times[row, :count], (found.signal_times - 2.0) / 0.75, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(batch.signals[row, :count], found.signals.astype(np.float32))
        for place in range(count, 6):
            assert batch.signals[row, place] == batch.signals[row, count - 1]
            assert batch.signal_times[row, place] == batch.signal_times[row, place - 1] + 1
    asked = batch.times
    value = Signals(batch.signal_times, batch.signals).at(asked)[1, :, 0]
    wanted = np.interp(times[2:], found.signal_times, found.signals[:, 0])
    np.testing.assert_allclose(value, wanted, atol=1e-5)
    one, two = batch.parts(2)
    assert torch.equal(torch.cat([one.signal_times, two.signal_times]), batch.signal_times)
    strided = Dataset(tmp_path / "a.h5", frame_stride=2)
    item = strided[Window(3, 1, 2)]
    np.testing.assert_allclose(item["signal_times"], (found.signal_times - 2.0) / 1.75, rtol=1e-6, atol=1e-6)


def test_features_and_parameters_stand_beside_frames(tmp_path: Path) -> None:
    batch = next(_dataset(tmp_path, own_source).batches([[Window(0, 1, 2), Window(1, 0, 2)]]))
    assert batch.fields.shape[:2] == (2, 2)
    assert batch.features.shape == (2, batch.points.shape[1], 2)


def test_wrong_turns_are_named(tmp_path: Path) -> None:
    dataset = _dataset(tmp_path)
    with pytest.raises(InputError, match="window: expected frames within 0 … 4"):
        dataset[Window(0, 3, 3)]
    with pytest.raises(FileError, match="holds no field 'w'"):
        _dataset(tmp_path, fields=["w"])
    with pytest.raises(InputError, match="split: expected one of train, validation, test, got 'valid'"):
        _dataset(tmp_path, split="valid")
    with pytest.raises(InputError, match="frame_stride"):
        _dataset(tmp_path, frame_stride=5)
    write(shared_source(3), tmp_path / "few.h5")
    with pytest.raises(FileError, match="holds no validation trajectories"):
        Dataset(tmp_path / "few.h5", "validation")


def test_windows_are_keyed_by_seed_epoch_and_sample() -> None:
    def starts(count: int, **keys: int) -> dict[int, int]:
        return {w.position: w.start for w in epoch_windows(count, 20, 7, random_starts=True, **keys)}

    first = starts(50, seed=0, epoch=0)
    assert starts(50, seed=0, epoch=0) == first
    assert starts(50, seed=0, epoch=1) != first
    assert starts(50, seed=1, epoch=0) != first
    few = starts(10, seed=0, epoch=0)
    assert all(first[position] == start for position, start in few.items())  # other samples change nothing
    assert set(starts(2000, seed=0, epoch=0).values()) == set(range(14))  # uniform over every start that fits


def test_windows_start_at_0_when_nearly_whole_or_told_to() -> None:
    assert {w.start for w in epoch_windows(50, 20, 19, seed=0, epoch=0, random_starts=True)} == {0}
    assert {w.start for w in epoch_windows(50, 20, 18, seed=0, epoch=0, random_starts=True)} == {0, 1, 2}
    assert {w.start for w in epoch_windows(50, 20, 7, seed=0, epoch=0)} == {0}
    assert len(epoch_windows(50, 20, 7, seed=0, epoch=0, random_starts=True, per_trajectory=2)) == 100
    assert whole_windows(2, 5) == [Window(0, 0, 5), Window(1, 0, 5)]


@pytest.mark.parametrize("make", [shared_source, own_source])
def test_statistics_are_those_of_the_training_part(make: Callable, tmp_path: Path) -> None:
    dataset = _dataset(tmp_path, make)
    fields, features = statistics(dataset)
    rows = np.concatenate([dataset.file.trajectory(index).fields.reshape(-1, len(dataset.fields)) for index in range(16)])
    rows = rows.astype(np.float64)
    np.testing.assert_allclose(fields.mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(fields.std, rows.std(axis=0, ddof=1), rtol=1e-12)
    np.testing.assert_array_equal(fields.lowest, rows.min(axis=0))
    np.testing.assert_array_equal(fields.highest, rows.max(axis=0))
    assert (features is None) == (make is shared_source)


def test_zero_may_stay_zero(tmp_path: Path) -> None:
    """Then fields are divided by their root mean square alone, and features are normalized as ever."""
    dataset = _dataset(tmp_path, own_source)
    fields, features = statistics(dataset, zero_stays=True)
    rows = np.concatenate([dataset.file.trajectory(index).fields.reshape(-1, len(dataset.fields)) for index in range(16)])
    np.testing.assert_allclose(fields.std, np.sqrt(np.square(rows.astype(np.float64)).mean(axis=0)), rtol=1e-12)
    assert fields.mean == (0.0,) * len(dataset.fields)
    assert features == statistics(dataset)[1]


def test_features_may_be_normalized_point_by_point(tmp_path: Path) -> None:
    """What all samples share vanishes, what differs between them is of size 1, whatever the rest of the channel is like."""
    source = shared_source()
    draw, base = np.random.default_rng(0), 1e3 * np.arange(36.0)
    features = [np.stack([base, base + 0.01 * draw.normal(size=36)], axis=1) for _ in range(10)]
    given = [dataclasses.replace(each, features=own) for each, own in zip(source.trajectories, features, strict=True)]
    description = dataclasses.replace(source.description, features=(Field(name="x"), Field(name="y")))
    dataset = Dataset(write(Source(description, given, 10), tmp_path / "a.h5").path)
    _, found = statistics(dataset, features_per_point=True)
    assert found is not None
    found = Statistics.model_validate_json(found.model_dump_json())
    known = np.stack(features)[: len(dataset)].astype(np.float32).astype(np.float64)
    normalized = found.normalized(torch.from_numpy(known)).numpy()
    assert (normalized[..., 0] == 0).all()
    varied = known[..., 1].std(axis=0, ddof=1)
    expected = (known[..., 1] - known[..., 1].mean(axis=0)) / np.where(varied > 1e-6 * known[..., 1].std(ddof=1), varied, 1.0)
    np.testing.assert_allclose(normalized[..., 1], expected, atol=1e-6)
    with pytest.raises(InputError, match=r"expected the 36 points of the surrogate's own mesh.*got 35 points"):
        found.normalized(torch.zeros(1, 35, 2))


def test_features_that_differ_in_number_are_not_normalized_point_by_point(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"as many points in every sample for 'point', got 2. to 3."):
        statistics(_dataset(tmp_path, own_source), features_per_point=True)
    with pytest.raises(ConfigError, match="expected a file with features for 'point'"):
        statistics(Dataset(write(shared_source(), tmp_path / "b.h5").path), features_per_point=True)


def test_statistics_refuse_what_is_not_finite(tmp_path: Path) -> None:
    source = shared_source()
    broken = list(source.trajectories)
    broken[4].fields[2, 7, 1] = np.nan
    write(type(source)(source.description, broken, 10), tmp_path / "a.h5")
    with pytest.raises(FileError, match="fields of trajectory 4: holds numbers that are not finite"):
        statistics(Dataset(tmp_path / "a.h5"))
