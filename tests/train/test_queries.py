"""The record of query points: which epochs it keeps, where it begins and ends."""

from __future__ import annotations

import pytest
import torch

from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.checkpoint import load_newest
from calm_pde.train.config import initial_model, model_config
from calm_pde.train.queries import QueryRecord
from tests.train import runs
from tests.train.runs import one_thread  # noqa: F401

LAYERS = {"encoder.0", "encoder.1", "encoder.2", "decoder.0", "decoder.1"}


def recorded(epochs: int) -> QueryRecord:
    record = QueryRecord()
    for epoch in range(epochs + 1):
        record.add(epoch, {"encoder.0.queries": torch.full((3, 2), float(epoch)), "other": torch.zeros(5)})
    return record


@pytest.mark.parametrize("epochs", [0, 1, 198, 199, 200, 500, 2001])
def test_at_most_two_hundred_snapshots_with_first_and_newest(epochs):
    record = recorded(epochs)
    kept = record.epochs
    assert (kept[0], kept[-1]) == (0, epochs)
    assert len(kept) <= 200
    assert len(kept) >= min(epochs + 1, 100)
    assert len({kept[i + 1] - kept[i] for i in range(len(kept) - 2)}) <= 1
    path = record.tensors["encoder.0"]
    assert path.dtype == torch.float32
    assert path[:, 0, 0].tolist() == kept
    assert "other" not in record.tensors


def test_a_resumed_record_is_that_of_the_whole_run():
    whole, resumed = recorded(450), QueryRecord(recorded(300).tensors)
    for epoch in range(299, 451):  # from a checkpoint within epoch 299, which was recorded already
        resumed.add(epoch, {"encoder.0.queries": torch.full((3, 2), float(epoch))})
    runs.assert_same_tensors(resumed.tensors, whole.tensors)


def test_a_run_records_from_the_seeded_construction_to_its_weights():
    run = runs.finished()
    found = load_newest(run / "checkpoints")
    assert found is not None
    checkpoint = found[0]
    record = QueryRecord(checkpoint.queries)
    assert record.epochs == list(range(14))
    assert record.positions.keys() == LAYERS
    trainer = runs.trainer(run)
    start = initial_model(model_config(trainer.recipe, trainer.data), trainer.data, trainer.config.seed).state_dict()
    best = Surrogate.load(run).model.state_dict()
    for name, path in record.positions.items():
        assert torch.equal(path[0], start[f"{name}.queries"])
        assert torch.equal(path[-1], checkpoint.weights[f"{name}.queries"])
        assert torch.equal(path[checkpoint.position.best_epoch], best[f"{name}.queries"])
        assert not torch.equal(path[0], path[-1])
