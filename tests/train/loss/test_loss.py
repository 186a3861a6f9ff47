"""The loss of a training: gradients beside values, channels by weights, and what changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from calm_pde.data.writing import write
from calm_pde.errors import ConfigError
from calm_pde.metrics import METRICS
from calm_pde.records.batch import Batch
from calm_pde.train.config import Recipe, TrainConfig
from calm_pde.train.loop import Trainer
from calm_pde.train.loss import channel_weights
from calm_pde.train.show import Show
from tests.data.sets import own_source, shared_source
from tests.train.loss.test_pairs import looped
from tests.train.test_curriculum import MODEL
from tests.train.test_stages import MODEL as STAGED

OWN = MODEL | {"node_types": [0, 4, 6]}


def trainer(folder: Path, source=None, model: dict | None = None, **train: object) -> Trainer:
    path = folder / "a.h5"
    if not path.exists():
        write(source or shared_source(20), path).close()
    settings = {"epochs": 10, "batch_size": 4, "first_length": 3, "precision": "float64"} | train
    recipe = Recipe.model_validate(
        {"name": "t", "data": {"file": path, "conditions": False}, "model": model or MODEL, "train": settings}
    )
    return Trainer(recipe, folder / "run", Show(Console(quiet=True)))


def first(run: Trainer) -> Batch:
    return next(run.batches(run.groups(0)))[0]


def by_hand(run: Trainer, batch: Batch, weights: list[float]) -> list[float]:
    """The part of gradients in plain loops, of what the model says."""
    stats, translator = run.surrogate.card.statistics, run.surrogate.translator
    truth = (batch.fields.double().numpy() - np.array(stats.mean)) / np.array(stats.std)
    told = {"mask": batch.mask, "node_type": translator.kinds(batch.node_type)}
    given = translator.inputs(batch, torch.float64)
    said = run.model.rollout(given.values, given.points, batch.times[1:].tolist(), **told).detach().numpy()
    periodic, found = run.data.description.periodic, []
    for b in range(len(batch)):
        real = range(truth.shape[2]) if batch.mask is None else batch.mask[b].nonzero().flatten().tolist()
        cloud = (batch.points if batch.points.ndim == 2 else batch.points[b])[list(real)].double()
        pairs = looped(cloud, periodic, tie=1e-5)
        both = [np.zeros(truth.shape[1::2]), np.zeros(truth.shape[1::2])]  # (time, channel)
        for (i, j), weight in pairs.items():
            for total, values in zip(both, (said[b] - truth[b], truth[b]), strict=True):
                total += weight * (values[:, real[i]] - values[:, real[j]]) ** 2
        error, size = (part.sum(axis=0) for part in both) if run.config.reduction == "spacetime" else both
        ratio = np.sqrt(error / np.maximum(size, 1e-5))
        found.append(float((ratio * weights).mean()))
    return found


@pytest.mark.parametrize("reduction", ["frame", "spacetime"])
@pytest.mark.parametrize(("source", "model"), [(shared_source, MODEL), (own_source, OWN)], ids=["one mesh", "own meshes"])
def test_gradients_are_in_the_loss_by_their_share(reduction: str, source, model: dict, tmp_path: Path) -> None:
    run = trainer(tmp_path, source(20), model, reduction=reduction, gradient_loss=0.7)
    batch = first(run)
    plain = trainer(tmp_path, model=model, reduction=reduction).objective.losses(batch)
    wanted = plain.detach().numpy() + 0.7 * np.array(by_hand(run, batch, [1.0]))
    np.testing.assert_allclose(run.objective.losses(batch).detach().numpy(), wanted, rtol=1e-9)


def test_weights_of_channels_are_those_of_values_and_gradients(tmp_path: Path) -> None:
    settings = {"gradient_loss": 0.5, "channel_weights": (1, 3)}
    run = trainer(tmp_path, **settings)
    batch = first(run)
    values = trainer(tmp_path, channel_weights=(1, 3)).objective.losses(batch)
    wanted = values.detach().numpy() + 0.5 * np.array(by_hand(run, batch, [0.5, 1.5]))
    np.testing.assert_allclose(run.objective.losses(batch).detach().numpy(), wanted, rtol=1e-9)
    alone = [trainer(tmp_path, channel_weights=some).objective.losses(batch) for some in ((1, 1e-9), (1e-9, 1))]
    torch.testing.assert_close(values, 0.25 * alone[0] + 0.75 * alone[1])
    assert float((alone[0] - alone[1]).detach().abs().min()) > 1e-3


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 7.0, 1e-300, 1e300])
def test_equal_weights_change_no_bit(weight: float, tmp_path: Path) -> None:
    for count in (1, 2, 3, 5, 7):
        found = channel_weights([weight] * count, list("abcdefg"[:count]))
        assert found is not None
        assert found.tolist() == [1.0] * count
    run = trainer(tmp_path, channel_weights=(weight, weight), precision="float32")
    batch = first(run)
    assert torch.equal(run.objective.losses(batch), trainer(tmp_path, precision="float32").objective.losses(batch))


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 2.0, 3.0)])
def test_another_number_of_weights_is_refused_with_the_fields(weights: tuple[float, ...], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"train\.channel_weights: expected 2, .* \(u, v\), got {len(weights)}"):
        trainer(tmp_path, channel_weights=weights)


@pytest.mark.parametrize("reduction", ["frame", "spacetime"])
def test_relative_to_physical_fields_the_loss_is_the_metric(tmp_path, reduction):
    run = trainer(tmp_path, relative_to="physical", reduction=reduction, reconstruction=False)
    batch = first(run)
    found = run.objective.losses(batch)
    predicted = run.surrogate.predicted(batch)
    errors = METRICS[{"frame": "relative_l2", "spacetime": "relative_l2_spacetime"}[reduction]].errors(
        predicted, batch.fields[:, 1:].double(), batch.mask
    )
    torch.testing.assert_close(found, errors.flatten(1).mean(dim=1), rtol=1e-5, atol=0)
    plain = trainer(tmp_path, reduction=reduction, reconstruction=False).objective.losses(batch)
    assert not torch.allclose(plain, found, rtol=1e-2)


@pytest.mark.parametrize(
    "settings", [{"gradient_loss": -0.1}, {"gradient_loss": float("inf")}, {"channel_weights": (1, 0)}, {"lead_times": "some"}]
)
def test_impossible_settings_are_refused(settings: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(settings))):
        TrainConfig(**settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [("gradient_loss", 0.1), ("channel_weights", (1.0,)), ("channel_weights", (1.0, 2.0)), ("relative_to", "physical")],
)
def test_a_model_with_losses_of_its_own_refuses_by_name(name: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"train\.{name}: aroma learns in stages \(autoencoder, dynamics\)"):
        trainer(tmp_path, model=STAGED, **{name: value})


@pytest.mark.parametrize(("source", "model"), [(shared_source, MODEL), (own_source, OWN)], ids=["one mesh", "own meshes"])
def test_a_random_offset_moves_no_pair(source, model: dict, tmp_path: Path) -> None:
    """With answers that do not know of it the loss is the same to the bit."""
    run = trainer(tmp_path, source(20), model, gradient_loss=1.0, precision="float32")
    batch = first(run)
    said = run.surrogate.translator.frames(batch, torch.float32).values
    said = said + torch.randn(said.shape, generator=torch.Generator().manual_seed(1))
    run.model.rollout = lambda *_: said
    still, moved = (run.objective.losses(batch, 0, offset) for offset in (None, np.array([0.04, -0.03])))
    assert torch.equal(still, moved)


def test_windows_that_a_symmetry_moved_have_the_same_loss(tmp_path: Path) -> None:
    """Every window has then points of its own, some across the seam."""
    run = trainer(tmp_path, gradient_loss=1.0, precision="float32")
    batch = first(run)
    said = run.surrogate.translator.frames(batch, torch.float32).values
    said = said + torch.randn(said.shape, generator=torch.Generator().manual_seed(1))
    run.model.rollout = lambda *_: said
    shifts = torch.rand(len(batch), 1, 2, generator=torch.Generator().manual_seed(2))
    moved = Batch(**(vars(batch) | {"points": (batch.points + shifts) % 1}))
    torch.testing.assert_close(run.objective.losses(moved), run.objective.losses(batch), rtol=1e-5, atol=0)


def test_a_run_with_all_of_it_learns(tmp_path: Path) -> None:
    settings = {"gradient_loss": 0.5, "channel_weights": (1, 2), "lead_times": "all", "precision": "float32"}
    run = trainer(tmp_path, epochs=6, learning_rate=1e-2, **settings)
    batch = first(run)
    before = run.objective.losses(batch).detach().mean()
    run.fit()
    assert 0 < run.objective.losses(batch).detach().mean() < 0.9 * before
