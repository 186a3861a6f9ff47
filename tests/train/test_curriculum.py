"""Which frames enter the loss at which epoch: the curriculum, random starts and self-reconstruction do what the paper says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from calm_pde.data.writing import write
from calm_pde.train.config import Recipe
from calm_pde.train.curriculum import window_length
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show
from tests.data.sets import own_source, shared_source

MODEL = {
    "kind": "calm",
    "dim": 2,
    "encoder": {"channels": [4, 8], "num_queries": [12, 4], "receptive_field": [0.3, 0.5], "temperature": [1.0, 1.0]},
    "decoder": {"channels": [4], "num_queries": [12], "receptive_field": [0.5, 0.3], "temperature": [1.0, 1.0]},
    "processor": {"heads": 2, "blocks": 1},
}


def _trainer(tmp_path: Path, source=None, model: dict | None = None, **train: object) -> Trainer:
    path = tmp_path / "a.h5"
    if not path.exists():
        write(source or shared_source(20, frames=12), path).close()
    settings = {"epochs": 10, "batch_size": 4, "first_length": 3} | train
    recipe = Recipe.model_validate(
        {"name": "t", "data": {"file": path, "conditions": False}, "model": MODEL | (model or {}), "train": settings}
    )
    return Trainer(recipe, tmp_path / "run", Show(Console(quiet=True)))


def test_length_is_the_published_formula() -> None:
    for epoch in range(500):
        wanted = min(20, 7 + math.floor(0.5 * (1 + math.tanh((epoch / 500 - 0.5) / 0.3)) * 20))
        assert window_length(epoch, 500, 20, 7) == wanted
    assert window_length(0, 500, 20, 7) == 7
    assert window_length(250, 500, 20, 7) == 17
    assert window_length(499, 500, 20, 7) == 20
    assert window_length(0, 500, 41, 15) == 16  # Burgers: ⌊0.0344 · 41⌋ = 1 more


def test_epochs_show_windows_of_the_curriculum(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path)
    seen = [{(w.length, w.start) for group in trainer.groups(epoch) for w in group} for epoch in range(10)]
    assert [max(length for length, _ in some) for some in seen] == [window_length(epoch, 10, 12, 3) for epoch in range(10)]
    assert len({start for _, start in seen[0]}) > 3  # short windows start anywhere …
    assert {start for _, start in seen[9]} == {0}  # … whole ones at the start


def test_switches(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, curriculum=False, random_starts=False, windows_per_trajectory=2)
    windows = [window for group in trainer.groups(0) for window in group]
    assert {(w.start, w.length) for w in windows} == {(0, 12)}
    assert len(windows) == 2 * len(trainer.data)


@pytest.mark.parametrize("reconstruction", [True, False])
def test_frame_0_is_in_the_loss_only_with_reconstruction(reconstruction: bool, tmp_path: Path) -> None:
    """Predictions that are right from frame 1 on: what remains is frame 0's share."""
    trainer = _trainer(tmp_path, reconstruction=reconstruction)
    batch, _ = next(trainer.batches(trainer.groups(0)))
    target = trainer.surrogate.card.statistics.normalized(batch.fields)
    trainer.model.rollout = lambda *_: torch.cat([torch.zeros_like(target[:, :1]), target[:, 1:]], dim=1)
    losses = trainer.objective.losses(batch)
    share = 1 / target.shape[1] if reconstruction else 0.0
    torch.testing.assert_close(losses, torch.full((len(batch),), share))


@pytest.mark.parametrize("reduction", ["frame", "spacetime"])
def test_loss_is_the_relative_l2_of_normalized_fields(reduction: str, tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, reduction=reduction)
    batch, _ = next(trainer.batches(trainer.groups(0)))
    stats = trainer.surrogate.card.statistics
    target = (batch.fields.double().numpy() - np.array(stats.mean)) / np.array(stats.std)
    predicted = (
        trainer.model.rollout(stats.normalized(batch.fields[:, 0]), batch.points, batch.times[1:].tolist())
        .detach()
        .double()
        .numpy()
    )
    axes = (2,) if reduction == "frame" else (1, 2)
    ratio = np.sqrt(((predicted - target) ** 2).sum(axis=axes) / np.maximum((target**2).sum(axis=axes), 1e-5))
    np.testing.assert_allclose(
        trainer.objective.losses(batch).detach().numpy(), ratio.mean(axis=-1 if reduction == "spacetime" else (1, 2)), rtol=1e-5
    )


def test_masked_points_do_not_enter_the_loss(tmp_path: Path) -> None:
    model = {"node_types": [0, 4, 6]}
    trainer = _trainer(tmp_path, own_source(20), model)
    windows = trainer.groups(0)[0]
    together = trainer.objective.losses(next(trainer.data.batches([windows])))
    alone = [trainer.objective.losses(next(trainer.data.batches([[window]]))) for window in windows]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-5)


def test_random_offset_is_one_draw_per_step_within_reach(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, random_offset=0.05)
    draws = []
    for step in range(50):
        trainer.position.batch = step
        draws.append(trainer._offset(2))
    assert np.abs(draws).max() <= 0.05
    assert np.abs(draws).max() > 0.04
    assert len({tuple(draw) for draw in draws}) == 50
    trainer.position.batch = 7
    np.testing.assert_array_equal(trainer._offset(2), draws[7])


def test_points_that_are_shifted_on_purpose_may_leave_the_box(tmp_path: Path) -> None:
    """Without a warning, which would be an error here; the same points unshifted are inside."""
    trainer = _trainer(tmp_path, own_source(20), {"node_types": [0, 4, 6]}, random_offset=0.05)
    batch = next(trainer.data.batches(trainer.groups(0)[:1]))
    shifted, still = (trainer.objective.losses(batch, 0, offset) for offset in (np.array([0.05, -0.05]), None))
    assert bool(torch.isfinite(shifted).all())
    assert not torch.equal(shifted, still)
