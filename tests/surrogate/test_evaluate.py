"""Evaluation by hand: perfect and known predictors, persistence, drift, padding, own meshes, other frames and boxes."""

from __future__ import annotations

import dataclasses
import io
import math
import warnings

import numpy as np
import pytest
import torch
from rich.console import Console

from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.errors import FileError, InputError, TrainingRangeWarning
from calm_pde.geometry import Box, tensor_grid
from calm_pde.metrics.scores import Evaluation, table
from calm_pde.records.trajectory import Source
from calm_pde.surrogate.evaluate import evaluate
from tests.data.sets import own_source, shared_source
from tests.surrogate.test_surrogate import one_thread, small_surrogate  # noqa: F401

OWN_BOX = Box((-1.0, 0.0), (1.0, 1.0))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Four test samples of waves on a grid, frames at 0, 0.5, …, 2."""
    return write(shared_source(count=40), tmp_path_factory.mktemp("data") / "waves.h5")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """Three test samples on meshes of their own, frames at 0, 1, 2, 3."""
    return write(own_source(count=30), tmp_path_factory.mktemp("data") / "bumps.h5")


def own_surrogate(**more):
    return small_surrogate(("u",), OWN_BOX, spacing=1.0, num_frames=4, **more)


def rewritten(source, path, change):
    """The source with every trajectory changed."""
    return write(Source(source.description, map(change, source.trajectories), source.count), path)


def truths(file, split="test"):
    return [file.trajectory(int(index)).fields.astype(np.float64) for index in file.indices(split)]


def answering(monkeypatch, surrogate, answer):
    """A surrogate whose answer is a function of the true frames (and of the batch)."""
    monkeypatch.setattr(surrogate, "predicted", lambda batch: answer(batch.fields[:, 1:]))
    return surrogate


def size(values, axis):
    return np.sqrt(np.square(values).sum(axis=axis))


@pytest.mark.parametrize("kind", ["shared", "own"])
def test_the_truth_has_no_error(request, monkeypatch, kind):
    file = request.getfixturevalue(kind)
    surrogate = small_surrogate() if kind == "shared" else own_surrogate()
    found = evaluate(answering(monkeypatch, surrogate, lambda fields: fields), file)
    assert found.relative_l2.mean == found.relative_l2_spacetime.mean == found.relative_l2.std == 0
    for field in found.fields:
        assert field.rmse == field.normalized_rmse == field.max_error == 0
        assert all(frame.mean == 0 for frame in field.frames)
        assert all(band.relative_l2 == band.rmse == 0 for band in field.bands.values())
    for drift in found.conserved:
        assert drift.prediction == drift.truth
    assert found.diverged == 0
    assert found.baseline.relative_l2.mean > 0.1
    assert found.fingerprint == file.fingerprint
    assert found.num_samples == len(file.indices("test"))


@pytest.mark.parametrize("kind", ["shared", "own"])
def test_persistence_by_hand(request, monkeypatch, kind):
    file = request.getfixturevalue(kind)
    surrogate = small_surrogate() if kind == "shared" else own_surrogate()
    found = evaluate(answering(monkeypatch, surrogate, lambda fields: fields), file).baseline
    assert found.kind == "persistence"
    wrong = [fields[:1] - fields[1:] for fields in truths(file)]
    later = [fields[1:] for fields in truths(file)]
    frames = np.stack([size(w, 1) / size(u, 1) for w, u in zip(wrong, later, strict=True)])  # (sample, time, channel)
    whole = np.stack([size(w, (0, 1)) / size(u, (0, 1)) for w, u in zip(wrong, later, strict=True)])
    assert found.relative_l2.mean == pytest.approx(frames.mean(), rel=1e-9)
    assert found.relative_l2.std == pytest.approx(frames.mean(axis=(1, 2)).std(ddof=1), rel=1e-6)
    assert found.relative_l2_spacetime.mean == pytest.approx(whole.mean(), rel=1e-9)
    for place, field in enumerate(found.fields):
        errors = np.concatenate([w[..., place].ravel() for w in wrong])
        target = np.concatenate([u[..., place].ravel() for u in later])
        assert field.rmse == pytest.approx(np.sqrt(np.square(errors).mean()), rel=1e-9)
        assert field.normalized_rmse == pytest.approx(field.rmse / np.sqrt(np.square(target).mean()), rel=1e-9)
        assert field.max_error == pytest.approx(np.abs(errors).max(), rel=1e-9)
        assert field.relative_l2_spacetime.std == pytest.approx(whole[:, place].std(ddof=1), rel=1e-6, abs=1e-12)
        np.testing.assert_allclose([frame.mean for frame in field.frames], frames[..., place].mean(axis=0), rtol=1e-9)
        np.testing.assert_allclose([f.std for f in field.frames], frames[..., place].std(axis=0, ddof=1), rtol=1e-5, atol=1e-9)


def test_a_tenth_too_much_is_a_tenth_everywhere(monkeypatch, shared):
    found = evaluate(answering(monkeypatch, small_surrogate(), lambda fields: 1.1 * fields.double()), shared)
    for spread in (found.relative_l2, found.relative_l2_spacetime, *found.fields[0].frames):
        assert spread.mean == pytest.approx(0.1)
        assert spread.std == pytest.approx(0, abs=1e-9)
    assert found.fields[1].bands["low"].relative_l2 == pytest.approx(0.1)
    assert found.times == (0.5, 1.0, 1.5, 2.0)


def test_an_offset_is_an_error_of_the_lowest_wave_and_a_drift(monkeypatch, tmp_path):
    file = write(shared_source(count=10, side=12), tmp_path / "waves.h5")
    ramp = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)[:, None, None] * torch.tensor([1.0, 0.0])
    found = evaluate(answering(monkeypatch, small_surrogate(), lambda fields: fields.double() + ramp), file)
    (drift,) = found.conserved
    start = truths(file)[0][0, :, 0]
    assert (drift.field, drift.integral) == ("u", "mean over points")
    np.testing.assert_allclose(drift.prediction, np.array([0.1, 0.2, 0.3, 0.4]) / np.abs(start).mean(), rtol=1e-5)
    np.testing.assert_allclose(drift.truth, 0, atol=1e-6)
    u, v = found.fields
    assert (v.rmse, v.max_error) == (0, 0)
    assert u.rmse == pytest.approx(math.sqrt(0.075))
    assert u.max_error == pytest.approx(0.4)
    assert set(u.bands) == {"low", "middle"}
    assert u.bands["low"].rmse == pytest.approx(u.rmse)
    assert u.bands["middle"].rmse == pytest.approx(0, abs=1e-9)


def test_drift_is_weighed_by_cells_where_there_are_some(monkeypatch, tmp_path):
    """Two triangles of areas 3 : 1; what moves from the large one's own corner to the small one's weighs a third there."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1 / 3]])
    cells = np.array([[0, 1, 2], [0, 1, 3]])
    source = shared_source(count=10, points=points, cells=cells, grid_shape=None, box=Box((0.0, 0.0), (2.0, 1.0)))
    file = rewritten(source, tmp_path / "two.h5", lambda one: dataclasses.replace(one, fields=np.ones((5, 4, 2))))
    moved = torch.tensor([0.0, 0.0, -1.0, 1.0])[:, None]
    surrogate = small_surrogate(box=Box((0.0, 0.0), (2.0, 1.0)))
    (drift,) = evaluate(answering(monkeypatch, surrogate, lambda fields: fields + moved), file).conserved
    assert drift.integral == "cell measures"
    np.testing.assert_allclose(drift.prediction, (3 - 1) / (3 * 4), rtol=1e-12)
    np.testing.assert_array_equal(drift.truth, 0)


def test_meshes_of_their_own_are_evaluated_as_if_alone(own):
    """Padding, batch mates and their number change nothing."""
    surrogate = own_surrogate(node_types=(0, 4, 6))
    together, alone = (evaluate(surrogate, own, batch_size=count) for count in (8, 1))
    assert len({len(fields[0]) for fields in truths(own)}) > 1
    for one, other in ((together, alone), (together.baseline, alone.baseline)):
        kept = {"relative_l2", "relative_l2_spacetime", "fields"}
        ours, theirs = (scores.model_dump(include=kept) for scores in (one, other))
        assert leaves(ours) == pytest.approx(leaves(theirs), rel=1e-4)
    errors = []
    for index in own.indices("test"):
        trajectory = own.trajectory(int(index))
        answer = surrogate.solve(trajectory.fields[0], trajectory.points, node_type=trajectory.node_type)
        errors.append((size(answer - trajectory.fields[1:], 1) / size(trajectory.fields[1:], 1)).mean())
    assert together.relative_l2.mean == pytest.approx(np.mean(errors), rel=1e-4)


def leaves(content):
    if isinstance(content, dict):
        content = content.values()
    elif not isinstance(content, tuple):
        return [content] if isinstance(content, float) else []
    return [leaf for entry in content for leaf in leaves(entry)]


def test_the_published_metric_counts_padding_as_the_mean(monkeypatch, own):
    """Whatever the batches; only the relative errors differ."""
    surrogate = answering(monkeypatch, own_surrogate(), lambda fields: fields.double() + 0.2)
    mean = surrogate.card.statistics.mean[0]
    most = max(fields.shape[1] for fields in truths(own))
    expected = []
    for fields in truths(own):
        padded = np.full((3, most, 1), mean)
        padded[:, : fields.shape[1]] = fields[1:]
        expected.append(size(np.full_like(fields[1:], 0.2), 1) / size(padded, 1))
    right = evaluate(surrogate, own)
    for batch_size in (1, 2, 8):
        found = evaluate(surrogate, own, batch_size=batch_size, legacy_padding_metric=True)
        assert found.relative_l2.mean == pytest.approx(np.mean(expected), rel=1e-9)
        assert found.relative_l2.mean < right.relative_l2.mean
        assert found.fields[0].rmse == pytest.approx(0.2)
        assert found.legacy_padding_metric


def test_no_padding_no_difference(shared):
    surrogate = small_surrogate()
    right, legacy = (evaluate(surrogate, shared, legacy_padding_metric=flag) for flag in (False, True))
    assert legacy.relative_l2.mean == pytest.approx(right.relative_l2.mean, rel=1e-12)


@pytest.mark.parametrize("spacing", [0.5, 1.0, 0.4])
def test_frames_are_compared_at_their_physical_times(shared, spacing):
    """Whatever the spacing that the surrogate was trained with, and whatever stride the file is read with."""
    surrogate = small_surrogate(spacing=spacing, num_frames=6)
    found = evaluate(surrogate, shared, frame_stride=2)
    assert found.times == (1.0, 2.0)
    errors = []
    for fields in truths(shared):
        answer = surrogate.solve(fields[0], shared.description.points, [1.0, 2.0])
        errors.append(size(answer - fields[2::2], 1) / size(fields[2::2], 1))
    assert found.relative_l2.mean == pytest.approx(np.mean(errors), rel=1e-5)


def test_another_box_is_said_and_the_surrogates_is_used(shared):
    surrogate = small_surrogate(box=Box((-1.0, 0.0), (2.0, 2.0), (True, True)))
    said = (
        r"waves\.h5: its box is \(0, 0\) to \(2, 1\), and the surrogate was trained in \(-1, 0\) to \(2, 2\), whose coordinates"
    )
    with pytest.warns(TrainingRangeWarning, match=said):
        found = evaluate(surrogate, shared)
    answers = [surrogate.solve(fields[0], shared.description.points) for fields in truths(shared)]
    errors = [size(a - u[1:], 1) / size(u[1:], 1) for a, u in zip(answers, truths(shared), strict=True)]
    assert found.relative_l2.mean == pytest.approx(np.mean(errors), rel=1e-4)


def test_data_in_another_unit_of_length_are_told_of_once(shared, tmp_path):
    """In words for a file of data, and not also in those for a tensor of unit coordinates."""
    source = shared_source(20)
    box = Box(tuple(1000 * x for x in source.description.box.lower), tuple(1000 * x for x in source.description.box.upper))
    described = dataclasses.replace(source.description, box=box, points=1000 * source.description.points)
    file = write(dataclasses.replace(source, description=described), tmp_path / "mm.h5")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        evaluate(small_surrogate(box=Box((0.0, 0.0), (2.0, 1.0))), file)
    (words,) = [str(one.message) for one in said]
    assert "its box is (0, 0) to (2000, 1000), and the surrogate was trained in (0, 0) to (2, 1), whose coordinates" in words


def test_fields_are_found_by_name(monkeypatch, shared):
    surrogate = answering(monkeypatch, small_surrogate(("v",)), lambda fields: fields + 1)
    (field,) = evaluate(surrogate, shared).fields
    assert field.name == "v"
    target = np.stack(truths(shared))[:, 1:, :, 1]
    assert field.normalized_rmse == pytest.approx(1 / np.sqrt(np.square(target).mean()), rel=1e-6)


def test_a_steady_problem(tmp_path):
    source = shared_source(count=20, frames=1)
    file = write(source, tmp_path / "steady.h5")
    surrogate = small_surrogate(("v",), task="steady", num_frames=1)
    found = evaluate(surrogate, file)
    assert (found.times, found.conserved, found.baseline.kind) == ((0.0,), (), "training mean")
    answer = surrogate.solve(None, file.description.points)
    target = np.stack(truths(file))[..., 1:]
    assert found.relative_l2.mean == pytest.approx(np.mean(size(answer - target, 2) / size(target, 2)), rel=1e-5)
    expected = np.mean(size(surrogate.card.statistics.mean[0] - target, 2) / size(target, 2))
    assert found.baseline.relative_l2.mean == pytest.approx(expected, rel=1e-9)


def test_an_autoencoder_is_scored_on_every_frame(shared):
    surrogate = small_surrogate(task="autoencoder")
    found = evaluate(surrogate, shared)
    assert found.times == (0.0, 0.5, 1.0, 1.5, 2.0)
    target = truths(shared)[0]
    errors = [
        size(surrogate.solve(frame, shared.description.points)[0] - frame, 0) / size(frame, 0)
        for fields in truths(shared)
        for frame in fields
    ]
    assert found.relative_l2.mean == pytest.approx(np.mean(errors), rel=1e-5)
    assert len(found.fields[0].frames) == len(target)


def test_numbers_survive_as_json(shared):
    found = evaluate(small_surrogate(), shared)
    assert Evaluation.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1e-6, 1e30])
def test_errors_do_not_know_the_unit_of_a_field(monkeypatch, tmp_path, scale):
    """Predicting zero is wrong by the whole size, in every number that is relative."""

    def scaled(one):
        return dataclasses.replace(one, fields=(scale * (2 + one.fields)).astype(np.float32))

    file = rewritten(shared_source(count=10, side=12), tmp_path / "scaled.h5", scaled)
    found = evaluate(answering(monkeypatch, small_surrogate(), torch.zeros_like), file)
    for spread in (found.relative_l2, found.relative_l2_spacetime, *found.fields[0].frames):
        assert spread.mean == pytest.approx(1)
    for field in found.fields:
        assert field.normalized_rmse == pytest.approx(1)
        assert field.bands["low"].relative_l2 == pytest.approx(1)
        assert field.zero_frames == 0
    assert found.conserved[0].prediction == pytest.approx([1.0] * 4)


def test_frames_that_are_exactly_zero_are_left_out_and_told(monkeypatch, tmp_path):
    """u of some samples is zero in every other frame, the first included; v is zero everywhere."""

    def emptied(one):
        fields = one.fields.copy()
        fields[..., 1] = 0
        fields[::2, :, 0] *= one.fields[0, 0, 0] > 0
        return dataclasses.replace(one, fields=fields)

    file = rewritten(shared_source(count=40), tmp_path / "zeros.h5", emptied)
    truth = np.stack(truths(file))
    zero = int((truth[:, 1:, :, 0] == 0).all(axis=2).sum())
    starts = int((truth[:, 0, :, 0] == 0).all(axis=1).sum())
    assert 0 < starts < 4
    found = evaluate(answering(monkeypatch, small_surrogate(), lambda fields: 1.5 * fields.double() + 0.01), file)
    u, v = found.fields
    assert (u.zero_frames, v.zero_frames) == (zero, 16)
    real = [(size(0.5 * f + 0.01, 0) / size(f, 0)) for one in truth[:, 1:, :, 0] for f in one if f.any()]
    assert all(min(real) <= frame.mean <= max(real) for frame in u.frames)
    assert found.relative_l2 == u.relative_l2
    assert math.isnan(v.relative_l2.mean)
    assert math.isnan(v.normalized_rmse)
    assert v.rmse == pytest.approx(0.01)
    assert found.conserved[0].zero_starts == starts
    assert math.isfinite(max(found.conserved[0].prediction))
    assert '"zero_frames":16' in found.model_dump_json()
    text = shown(found)
    told = (f"u is exactly zero in {zero} of 16 frames", "v is exactly zero in 16 of 16 frames", "starts from exactly zero")
    for words in told:
        assert words in text


def test_divergence_is_counted_and_survives(monkeypatch, shared):
    def answer(fields):
        fields = fields.clone()
        fields[1:2, 2] = float("inf")
        return fields

    found = evaluate(answering(monkeypatch, small_surrogate(), answer), shared)
    assert found.diverged == 1
    assert found.diverged_frames == {int(shared.indices("test")[1]): 2}
    assert math.isinf(found.relative_l2.mean)
    again = Evaluation.model_validate_json(found.model_dump_json())
    assert math.isinf(again.fields[0].rmse)
    assert again.fields[0].frames[0].mean == 0
    assert again.diverged_frames == found.diverged_frames
    text = " ".join(shown(found).split())
    assert "1 samples diverged" in text
    assert f"trajectory {shared.indices('test')[1]} is the first, not finite at t = 1.5 (frame 3 of 4)" in text


def test_numbers_that_are_none_count_as_infinite_errors(monkeypatch, shared):
    """Divergence never flatters: no error that holds it is smaller, nor NaN, which a sort might put first."""

    def answer(fields):
        fields = fields.clone()
        fields[:1, 1:] = float("nan")
        return fields

    found = evaluate(answering(monkeypatch, small_surrogate(), answer), shared)
    u = found.fields[0]
    numbers = (found.relative_l2.mean, found.relative_l2_spacetime.mean, u.relative_l2.mean, u.rmse, u.normalized_rmse)
    assert all(math.isinf(number) for number in (*numbers, u.max_error, u.bands["low"].relative_l2, found.sample_errors[0]))
    assert [frame.mean for frame in u.frames] == [0, math.inf, math.inf, math.inf]
    assert math.isinf(found.conserved[0].prediction[-1])
    assert found.sample_errors[1:] == (0, 0, 0)


def shown(found):
    console = Console(file=io.StringIO(), width=160)
    console.print(table(found))
    return console.file.getvalue()


def test_times_and_the_table(shared, own):
    found = evaluate(small_surrogate(), shared, batch_size=3)
    timing = found.timing
    assert timing.seconds > 0
    assert timing.solver_seconds == 0.25
    assert timing.speedup == pytest.approx(0.25 / timing.seconds)
    text = shown(found)
    for word in ("waves, test: 4 samples", "u [m/s]", f"{found.relative_l2.mean:.4f}", "persistence", "0.25 s", "drift of u"):
        assert word in text
    unknown = evaluate(own_surrogate(), own).timing
    assert unknown.solver_seconds is unknown.speedup is None


def test_one_batch_at_a_time_with_progress(monkeypatch, shared):
    sizes, steps = [], []

    def answer(fields):
        sizes.append(len(fields))
        return fields

    surrogate = answering(monkeypatch, small_surrogate(), answer)
    evaluate(surrogate, shared, split="train", batch_size=10, progress=lambda *step: steps.append(step))
    assert sizes == [10, 10, 10, 10, 2]  # the first is the warm-up
    assert steps == [(10, 32), (20, 32), (30, 32), (32, 32)]


def test_only_uniform_periodic_grids_have_bands(monkeypatch, tmp_path):
    axis = np.arange(6) / 6
    uneven = tensor_grid(2 * axis**2, axis)
    for name, changes in {"open": {"box": Box((0.0, 0.0), (2.0, 1.0))}, "uneven": {"points": uneven}}.items():
        surrogate = small_surrogate(box=changes.get("box", Box((0.0, 0.0), (2.0, 1.0), True)))
        file = write(shared_source(**changes), tmp_path / f"{name}.h5")
        found = evaluate(answering(monkeypatch, surrogate, lambda fields: fields), file)
        assert found.fields[0].bands == {}


def test_files_that_do_not_fit_are_named(shared, own, tmp_path):
    steady = write(shared_source(frames=1), tmp_path / "steady.h5")
    broken = rewritten(
        shared_source(), tmp_path / "broken.h5", lambda one: dataclasses.replace(one, fields=np.full_like(one.fields, np.nan))
    )
    features = {"features": ("u", "v"), "task": "steady", "num_frames": 1}
    cases = (
        (small_surrogate(("v",), Box((0.0,), (1.0,))), shared, r"waves\.h5: is 2-D, and the surrogate is 1-D"),
        (small_surrogate(("u", "v"), OWN_BOX), own, r"bumps\.h5, fields: holds u, and the surrogate was trained on u, v"),
        (small_surrogate(("u",), **features), steady, "features: holds none, and the surrogate was trained on u, v"),
        (small_surrogate(node_types=(0, 1)), shared, "no node types"),
        (small_surrogate(), steady, "times: the surrogate needs at least 2 frames.* got 1"),
        (small_surrogate(task="steady"), shared, "times: the surrogate needs a steady problem, one frame, got 5"),
        (small_surrogate(), broken, r"broken\.h5, trajectories \[9\]: hold numbers that are not finite"),
    )
    for surrogate, file, message in cases:
        with pytest.raises(FileError, match=message):
            evaluate(surrogate, file)
    for name, value in {"batch_size": 0, "split": "tests", "frame_stride": 9}.items():
        with pytest.raises(InputError, match=name):
            evaluate(small_surrogate(), shared, **{name: value})


def test_a_longer_file_is_said(shared):
    with pytest.warns(TrainingRangeWarning, match="times reach 2 after the first; the surrogate was trained to 1"):
        evaluate(small_surrogate(num_frames=3), shared)
    evaluate(small_surrogate(num_frames=3, provenance={"data": shared.fingerprint}), DataFile(shared.path))
