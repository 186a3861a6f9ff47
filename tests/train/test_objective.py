"""The one way in which training asks a model: what it adds comes into the loss, whatever it is fed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from calm_pde.data.writing import write
from calm_pde.metrics.relative_l2 import relative_l2_loss
from calm_pde.records.inputs import Frames
from calm_pde.train.config import Recipe
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show
from tests.data.sets import own_source, shared_source
from tests.models import steps
from tests.train.runs import one_thread  # noqa: F401
from tests.train.test_curriculum import MODEL

KINDS = {"node_types": [0, 4, 6]}
SOURCES = pytest.mark.parametrize(
    ("source", "kinds"), [(shared_source, {}), (own_source, KINDS)], ids=["one mesh", "own meshes"]
)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with steps.registered():
        yield


def trainer(folder: Path, source: Any, model: dict[str, Any], **train: Any) -> Trainer:
    path = folder / "a.h5"
    if not path.exists():
        write(source(20, frames=6), path).close()
    settings = {"epochs": 10, "batch_size": 4, "precision": "float64", "first_length": 3} | train
    content = {"name": "t", "data": {"file": path, "conditions": False}, "model": model, "train": settings}
    return Trainer(Recipe.model_validate(content), folder / "run", Show(Console(quiet=True)))


@SOURCES
@pytest.mark.parametrize("offset", [0.0, 0.05])
def test_consistency_is_added_to_the_loss(source: Any, kinds: dict[str, Any], offset: float, tmp_path: Path) -> None:
    """So often as its weight says, of the normalized frames of a window; batch mates change nothing."""
    losses = []
    for weight in (0.0, 1.0, 3.0):
        run = trainer(tmp_path, source, MODEL | kinds | {"consistency": weight})
        (window, *_), *_ = groups = run.groups(0)
        batch = next(run.data.batches(groups[:1]))
        losses.append(run.objective.losses(batch, 0, torch.tensor([offset, -offset]).numpy() if offset else None))
        if not offset:
            single = run.objective.losses(next(run.data.batches([[window]])), 0)
            torch.testing.assert_close(losses[-1][:1], single, rtol=1e-10, atol=0)
    without, once, thrice = losses
    assert float((once - without).detach().min()) > 0
    torch.testing.assert_close(thrice - without, 3 * (once - without), rtol=1e-10, atol=0)


@SOURCES
@pytest.mark.parametrize("task", ["steady", "autoencoder"])
def test_without_time_the_one_answer_is_in_the_loss(source: Any, kinds: dict[str, Any], task: str, tmp_path: Path) -> None:
    """Of the features (here the coordinates, or those of the file) or of the state, as the model itself answers it."""
    run = trainer(tmp_path, source, MODEL | kinds | {"task": task})
    batch = next(run.data.batches(run.groups(0)[:1]))
    given, frames = (getattr(run.surrogate.translator, name)(batch, torch.float64) for name in ("inputs", "frames"))
    wanted = relative_l2_loss(run.model(given.values, given.points, **given.told), frames.values, batch.mask)
    torch.testing.assert_close(run.objective.losses(batch), wanted, rtol=1e-12, atol=0)


def test_noise_is_on_what_is_given_and_on_no_other_frame(tmp_path: Path) -> None:
    run = trainer(tmp_path, shared_source, MODEL | {"consistency": 1.0}, input_noise=0.1)
    asked: list[Frames] = []
    real = run.model.training_answer
    run.model.training_answer = lambda frames, times: (asked.append(frames), real(frames, times))[1]
    batch = next(run.data.batches(run.groups(0)[:1]))
    run.objective.losses(batch, 0)
    noise = asked[0].values - run.surrogate.translator.frames(batch, torch.float64).values
    assert 0.05 < float(noise[:, 0].std()) < 0.2
    assert float(noise[:, 1:].abs().max()) == 0


def test_in_half_precision_the_loss_stays_in_single(tmp_path: Path) -> None:
    whole, half = (
        trainer(tmp_path, shared_source, MODEL | {"consistency": 1.0}, precision=precision)
        for precision in ("float32", "bfloat16")
    )
    batch = next(whole.data.batches(whole.groups(0)[:1]))
    found, wanted = half.objective.losses(batch), whole.objective.losses(batch)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, wanted, rtol=0.05, atol=0)
    found.sum().backward()
    assert all(bool(weight.grad.isfinite().all()) for weight in half.model.parameters())


@pytest.mark.parametrize("feeding", ["rollout", "prefix", "truth"])
def test_what_a_model_adds_counts_whatever_it_is_fed(feeding: str, tmp_path: Path) -> None:
    run = trainer(tmp_path, shared_source, {"kind": steps.KIND}, feeding=feeding)
    batch = next(run.data.batches(run.groups(0)[:1]))
    plain, real = run.objective.losses(batch, 0), run.model.training_answer
    added = torch.arange(4.0, dtype=torch.float64)
    run.model.training_answer = lambda frames, times: real(frames, times)._replace(added=added)
    torch.testing.assert_close(run.objective.losses(batch, 0), plain + added, rtol=1e-12, atol=0)
