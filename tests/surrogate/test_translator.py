"""The one way from a batch to a model and back: by hand, for every task, and the same in every place that uses it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from calm_pde.data.dataset import Dataset
from calm_pde.data.windows import whole_windows
from calm_pde.data.writing import write
from calm_pde.errors import InputError
from calm_pde.records.batch import Batch
from calm_pde.records.inputs import Inputs
from calm_pde.surrogate.translator import Translator
from tests.data.sets import own_source, shared_source
from tests.surrogate.test_surrogate import BOX, one_thread, small_surrogate  # noqa: F401

KINDS = torch.tensor([0, 4] * 18)


@pytest.fixture(scope="module")
def batch(tmp_path_factory) -> Batch:
    data = Dataset(write(shared_source(), tmp_path_factory.mktemp("data") / "waves.h5"))
    return next(data.batches([whole_windows(2, data.num_frames)]))


def test_frame_0_is_given_normalized(batch):
    translator = small_surrogate().translator
    found = translator.inputs(batch, torch.float64)
    expected = (batch.fields[:, 0].double() - torch.tensor([0.1, 2.0])) / torch.tensor([0.7, 0.4])
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)
    assert torch.equal(found.points, batch.points.double())
    left = (found.cells, found.mask, found.node_type, found.features, found.parameters, found.signals)
    assert left == (None,) * 6
    frames = translator.frames(batch, torch.float64)
    assert torch.equal(frames.values[:, 0], found.values)
    np.testing.assert_allclose(translator.physical(frames.values), batch.fields, rtol=1e-6, atol=1e-6)
    change = translator.physical(frames.values[:, 1]) - translator.physical(frames.values[:, 0])
    np.testing.assert_allclose(translator.physical_change(frames.values[:, 1] - frames.values[:, 0]), change, atol=1e-12)


def test_node_types_go_to_models_that_take_them(batch):
    batch = dataclasses.replace(batch, node_type=KINDS)
    for codes, told in (((), None), ((0, 4), KINDS)):
        translator = small_surrogate(node_types=codes).translator
        assert translator.inputs(batch, torch.float32).node_type is told
        assert translator.frames(batch, torch.float32).node_type is told


def test_a_steady_model_is_given_features_or_coordinates(batch):
    features = batch.fields[:, 1]
    batch = dataclasses.replace(batch, features=features)
    told = small_surrogate(("u",), task="steady", features=("u", "v"), num_frames=1).translator.inputs(batch, torch.float32)
    np.testing.assert_allclose(told.values, (features - torch.tensor([0.1, 2.0])) / torch.tensor([0.7, 0.4]), rtol=1e-5)
    plain = small_surrogate(("u",), task="steady", num_frames=1).translator
    assert torch.equal(plain.inputs(batch, torch.float32).values, batch.points.expand(2, 36, 2))
    assert plain.given(features) is features


def test_meshes_of_different_size_keep_their_mask(tmp_path):
    data = Dataset(write(own_source(), tmp_path / "a.h5"))
    batch = next(data.batches([whole_windows(2, data.num_frames)]))
    found = small_surrogate(("u",)).translator.inputs(batch, torch.float32)
    assert batch.mask is not None
    assert list(found.told) == ["mask"]
    assert found.mask is batch.mask
    assert found.points.shape == batch.points.shape


@pytest.mark.parametrize("task", ["rollout", "steady", "autoencoder"])
def test_solving_and_predicting_a_batch_give_a_model_the_same(task, batch):
    surrogate = small_surrogate(("u", "v"), task=task, num_frames=1 if task == "steady" else 5)
    given = surrogate.translator.inputs(batch, torch.float32)
    with torch.no_grad():
        steps = {"num_steps": 4} if task == "rollout" else {}
        answer = surrogate.model(given.values, given.points, **given.told, **steps)
    expected = surrogate.translator.physical(answer)
    np.testing.assert_allclose(surrogate.predicted(batch), expected, rtol=1e-5, atol=1e-6)
    initial = None if task == "steady" else batch.fields[:, 0].numpy()
    solved = surrogate.solve(initial, BOX.to_physical(batch.points.double().numpy()))
    np.testing.assert_allclose(solved, expected[0] if task == "steady" else expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("task", ["rollout", "steady", "autoencoder"])
def test_whoever_asks_a_surrogate_goes_the_one_way(task, batch, monkeypatch):
    """Another way in would answer as before when this one changes."""
    surrogate = small_surrogate(("u", "v"), task=task, num_frames=1 if task == "steady" else 5)
    points, initial = BOX.to_physical(batch.points.double().numpy()), batch.fields[0, 0].numpy()
    initial = None if task == "steady" else initial
    asks = {
        "solve": lambda: surrogate.solve(initial, points),
        "a list": lambda: surrogate.solve([initial], [points])[0] if task != "steady" else surrogate.solve(None, points),
        "bake": lambda: surrogate.bake(points).solve(initial),
        "batch": lambda: surrogate.predicted(batch)[0].numpy(),
    }
    before = {name: ask() for name, ask in asks.items()}
    inputs = Translator.inputs
    changed = lambda *given: (found := inputs(*given)) and dataclasses.replace(found, values=1.5 * found.values)  # noqa: E731
    monkeypatch.setattr(Translator, "inputs", changed)
    after = {name: ask() for name, ask in asks.items()}
    for name in asks:
        np.testing.assert_allclose(after[name], after["batch"], rtol=1e-4, atol=1e-5, err_msg=name)
        assert np.abs(after[name] - before[name]).max() > 1e-3, name


def test_coordinates_are_those_of_the_points(batch):
    """A steady surrogate without features is given nothing else; what differs from them is not taken in silence."""
    surrogate = small_surrogate(("u",), task="steady", num_frames=1)
    points = BOX.to_physical(batch.points.double().numpy())
    alone = surrogate.solve(None, points)
    np.testing.assert_array_equal(surrogate.solve(points, points), alone)
    np.testing.assert_allclose(
        surrogate.solve(np.stack([points, points]), points), np.stack([alone, alone]), rtol=1e-5, atol=1e-6
    )
    for other in (points + 0.1, np.stack([points, points + 0.1])):
        with pytest.raises(InputError, match="initial: expected none, or the points themselves"):
            surrogate.solve(other, points)
    with pytest.raises(InputError, match="initial: expected none, or the points themselves"):
        surrogate.solve(points, np.stack([points, points]))


def test_a_baked_surrogate_keeps_the_coordinates_that_it_was_given(batch):
    surrogate, points = small_surrogate(("u",), task="steady", num_frames=1), BOX.to_physical(batch.points.double().numpy())
    fast = surrogate.bake(points)
    before = fast.solve(None)
    points += 0.3
    np.testing.assert_array_equal(fast.solve(None), before)


def test_node_types_that_a_user_names_are_never_dropped(batch):
    """A file may have them nevertheless; whoever passes them means them."""
    points = BOX.to_physical(batch.points.double().numpy())
    with pytest.raises(InputError, match="node_type: expected none"):
        small_surrogate().solve(batch.fields[0, 0].numpy(), points, node_type=KINDS.numpy())


def test_the_record_says_what_every_model_takes_by_name():
    values, points, mask = torch.zeros(1, 5, 2), torch.zeros(5, 2), torch.ones(1, 5, dtype=torch.bool)
    assert Inputs(values, points, mask=mask).told == {"mask": mask}
