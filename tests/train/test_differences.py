"""Training by differences: what is gathered before, the mean square in deviations, noise on what is free, short windows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from calm_pde.data.arrays import from_arrays
from calm_pde.data.dataset import Dataset
from calm_pde.data.writing import write
from calm_pde.errors import ConfigError
from calm_pde.records.batch import Batch
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.config import Recipe, TrainConfig
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show
from tests.data.sets import own_source
from tests.train.runs import one_thread  # noqa: F401

FRAMES = 6
MODEL = {"kind": "mesh_graph_nets", "dim": 2, "width": 8, "steps": 2, "node_types": (0, 4, 6)}
DIFFERENCES = {"feeding": "truth", "error": "difference"}


def trainer(folder: Path, file: Path | None = None, model: dict[str, Any] | None = None, **train: Any) -> Trainer:
    if file is None:
        file = folder / "a.h5"
        if not file.exists():
            write(own_source(20, frames=FRAMES), file).close()
    settings = {"epochs": 4, "batch_size": 4, "precision": "float64"} | DIFFERENCES | train
    content = {"name": "t", "data": {"file": file, "conditions": False}, "model": model or MODEL, "train": settings}
    return Trainer(Recipe.model_validate(content), folder / "run", Show(Console(quiet=True)))


def batch_of(run: Trainer) -> Batch:
    return next(run.batches(run.groups(0)))[0]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two fields on one mesh, of which the first is prescribed at walls."""
    draw = np.random.default_rng(0)
    points, kinds = draw.random((20, 2)), np.array([0] * 15 + [4] * 5)
    fields = np.cumsum(draw.normal(size=(20, FRAMES, 20, 2)) * [1.0, 5.0], axis=1)
    fields[:, :, kinds == 4, 0] *= 30.0
    path = tmp_path_factory.mktemp("held") / "held.h5"
    told: dict[str, Any] = {"node_type": kinds, "node_types": {0: "inside", 4: "wall"}, "prescribed": {"u0": ["wall"]}}
    from_arrays(points, fields, np.arange(float(FRAMES)), out=path, **told)
    return path


def test_what_is_gathered_is_that_of_the_training_split(tmp_path):
    """Of edges over all cells and meshes, of differences over all steps; and it is kept in the folder."""
    run, edges, steps = trainer(tmp_path, epochs=1, batch_size=16), [], []
    for index in run.data.indices:
        found = run.data.file.trajectory(int(index))
        unit = run.data.box.to_unit(found.points)
        ends = {(int(a), int(b)) for cell in found.cells for a in cell for b in cell if a != b}
        away = np.array([unit[a] - unit[b] for a, b in sorted(ends)])
        edges.append(np.concatenate([away, np.linalg.norm(away, axis=1, keepdims=True)], axis=1))
        steps.append(np.diff(found.fields[..., 0], axis=0).ravel() / run.surrogate.card.statistics.std[0])
    edges, steps = np.concatenate(edges), np.concatenate(steps)
    kept = Surrogate.load(run.fit()).model
    for model in (run.model, kept):
        encoder = model.processor.encoder
        np.testing.assert_allclose(encoder.mean, edges.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(encoder.std, edges.std(axis=0, ddof=1), rtol=1e-5)
        np.testing.assert_allclose(model.difference_deviation, [steps.std(ddof=1)], rtol=1e-5)


def test_prescribed_values_are_not_gathered(held, tmp_path):
    model = trainer(tmp_path, held).model
    run = Dataset(held)
    fields = np.stack([run[place]["fields"].numpy() for place in range(len(run))])
    free = np.diff(fields[:, :, :15, 0], axis=1).std() / np.array(trainer(tmp_path, held).surrogate.card.statistics.std[0])
    assert float(model.difference_deviation[0]) == pytest.approx(float(free), rel=1e-3)
    assert float(np.diff(fields[..., 0], axis=1).std()) > 5 * float(np.diff(fields[:, :, :15, 0], axis=1).std())


def test_the_loss_is_the_mean_square_in_deviations(tmp_path):
    """Over real points, sample by sample, of one step from each true frame."""
    run = trainer(tmp_path)
    batch = batch_of(run)
    assert batch.mask is not None
    truth = run.surrogate.translator.frames(batch, torch.float64)
    wanted = []
    for place in range(len(batch)):
        real = batch.mask[place]
        steps = []
        for t in range(1, FRAMES):
            state, own = truth.values[place : place + 1, t - 1, real], truth.points[place][real]
            answer = run.model(state, own, 1, node_type=truth.node_type[place][real], cells=truth.cells[place])[0, 0]
            steps.append((answer - truth.values[place, t, real]) / run.model.difference_deviation)
        wanted.append(torch.stack(steps).square().mean())
    torch.testing.assert_close(run.objective.losses(batch), torch.stack(wanted), rtol=1e-10, atol=0)


def test_what_is_prescribed_is_in_no_loss_and_gets_no_noise(held, tmp_path):
    run = trainer(tmp_path, held, MODEL | {"node_types": (0, 4)}, input_noise=0.1)
    batch = batch_of(run)
    noise = run.objective._noisy(torch.zeros_like(batch.fields), batch, 0)
    assert float(noise[:, :, 15:, 0].abs().max()) == 0
    for free in (noise[:, :, :15, 0], noise[..., 1]):
        assert float(free.std()) == pytest.approx(0.1, rel=0.15)
    before = run.objective.losses(batch)
    batch.fields[:, -1, 15:, 0] += 100.0
    torch.testing.assert_close(run.objective.losses(batch), before, rtol=0, atol=0)
    batch.fields[:, -1, :15, 0] += 100.0
    assert float((run.objective.losses(batch) - before).detach().min()) > 0.1


def test_noise_of_a_field_is_in_its_own_unit(held, tmp_path):
    run = trainer(tmp_path, held, MODEL | {"node_types": (0, 4)}, input_noise={"u1": 3.0})
    batch = batch_of(run)
    values = torch.zeros(len(batch), 5, 400, 2, dtype=torch.float64)
    run.objective._known = lambda *_: None
    noise = run.objective._noisy(values, batch, 0)
    assert float(noise[..., 0].abs().max()) == 0
    assert float(noise[..., 1].std()) * run.surrogate.card.statistics.std[1] == pytest.approx(3.0, rel=0.02)
    with pytest.raises(ConfigError, match=r"train.input_noise: there is no field 'u2'. Known are: u0, u1"):
        trainer(tmp_path, held, MODEL | {"node_types": (0, 4)}, input_noise={"u2": 3.0})


@pytest.mark.parametrize(("window", "length"), [(None, FRAMES), (2, 2), (3, 3), (100, FRAMES)])
def test_windows_of_true_frames(window, length, tmp_path):
    run = trainer(tmp_path, window=window, windows_per_trajectory=3)
    groups = [window for group in run.groups(0) for window in group]
    assert {window.length for window in groups} == {length}
    assert len({window.start for window in groups}) == (1 if length == FRAMES else FRAMES - length + 1)


def test_a_training_learns_and_goes_on_from_another_with_its_statistics(tmp_path):
    """Of which it gathers none anew."""
    first = trainer(tmp_path, epochs=1, window=2, learning_rate=1e-2, batch_size=16, schedule="constant")
    losses = [first.step(*next(first.batches(first.groups(epoch)))) for epoch in range(40)]
    assert np.mean(losses[-5:]) < 0.2 * np.mean(losses[1:6])
    write(own_source(20, frames=FRAMES, seed=5), tmp_path / "b.h5").close()
    first.fit()
    changes = {"name": "t", "data": {"file": tmp_path / "b.h5", "conditions": False}, "parent": {"run": tmp_path / "run"}}
    parent = Surrogate.load(tmp_path / "run")
    content = changes | {"model": {"kind": "mesh_graph_nets"} | parent.card.model, "train": {"epochs": 1} | DIFFERENCES}
    second = Trainer(Recipe.model_validate(content), tmp_path / "next", Show(Console(quiet=True)))
    assert torch.equal(second.model.difference_deviation, parent.model.difference_deviation)
    assert torch.equal(second.model.processor.encoder.mean, parent.model.processor.encoder.mean)


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"feeding": "rollout", "window": 2}, "window is of feeding 'truth'; leave it out with 'rollout', got 2"),
        ({"schedule": "exponential"}, "lowest_rate: an exponential schedule ends between 0 and 0.001, got 0"),
        ({"gradient_loss": 0.1}, "train.gradient_loss: with train.error 'difference' nothing is relative to a field"),
        ({"relative_to": "physical"}, "train.relative_to: with train.error 'difference' nothing is relative"),
    ],
)
def test_settings_that_do_not_fit_are_refused(train, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        trainer(tmp_path, **train)


def test_a_model_that_keeps_no_differences_is_refused(tmp_path):
    lno = {"kind": "lno", "dim": 2, "width": 8, "heads": 2, "modes": 4, "blocks": 1}
    with pytest.raises(
        ConfigError, match=r"train.error: 'difference' is for models that keep .*and lno does not. Use 'relative'"
    ):
        trainer(tmp_path, model=lno)


def test_defaults_are_what_they_were():
    assert TrainConfig().model_dump(include={"error", "window", "input_noise"}) == {
        "error": "relative",
        "window": None,
        "input_noise": 0.0,
    }
