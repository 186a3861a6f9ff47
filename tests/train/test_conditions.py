"""Training with conditions: what a recipe takes of a file, a run that goes on to the bit, and what is left out of the loss."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from calm_pde.data.arrays import from_arrays
from calm_pde.data.dataset import Dataset
from calm_pde.errors import ConfigError
from calm_pde.models import MODELS
from calm_pde.train.checkpoint import saved
from calm_pde.train.config import Recipe, conditions_told, model_config
from calm_pde.train.loop import Trainer
from calm_pde.train.show import Show
from tests.train import runs
from tests.train.runs import one_thread  # noqa: F401

TOLD = {"parameters": 2, "signals": 1, "features": 1}
QUIET = Show(Console(quiet=True))
LNO = {"kind": "lno", "width": 8, "heads": 2, "modes": 4, "blocks": 1, "projector_layers": 1}
KINDS = np.array([0] * 15 + [4] * 5)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A field that grows at the rate `speed` and follows `wall` at points of type 4, where it is prescribed."""
    draw = np.random.default_rng(0)
    points, times = draw.random((20, 2)), np.arange(5.0)
    speed, power = draw.random(20), draw.random(20)
    wall = np.sin(draw.random((20, 1)) * 6 + times)
    fields = np.repeat(np.sin(3 * points[:, 0] + speed[:, None, None] * times[:, None])[..., None], 2, axis=-1)
    fields[:, :, KINDS == 4, 0] = wall[..., None]
    path = tmp_path_factory.mktemp("told") / "told.h5"
    more: dict[str, Any] = {"node_type": KINDS, "node_types": {0: "inside", 4: "wall"}, "prescribed": {"u0": ["wall"]}}
    more |= {"features": points[:, :1], "feature_names": ["depth"], "signals": {"wall": wall}}
    from_arrays(points, fields, times, out=path, parameters={"speed": speed, "power": power}, **more)
    return path


def trainer(
    file: Path, run: Path, model: dict[str, Any] | None = None, data: dict[str, Any] | None = None, **train: Any
) -> Trainer:
    changes = {"name": "told", "data": {"file": str(file), "frame_stride": 1} | (data or {}), "train": {"epochs": 4} | train}
    return runs.trainer(run, **changes, **({} if model is None else {"model": model}))


def test_what_the_model_is_told_is_said(file: Path, tmp_path: Path) -> None:
    """And what of the file it is not, which nobody should find out from the errors."""
    wanted = {
        True: "told beside the state: speed, power, wall, depth\n",
        ("speed", "wall"): "told beside the state: speed, wall; not told, by data.conditions: power, depth\n",
        False: "not told, by data.conditions: speed, power, wall, depth\n",
    }
    for number, (chosen, words) in enumerate(wanted.items()):
        console = Console(record=True, file=io.StringIO(), width=200)
        made = trainer(file, tmp_path / str(number), data={"conditions": chosen})
        Show(console).begin(made)
        assert words in console.export_text()


def counts(trainer: Trainer) -> dict[str, int]:
    return {name: getattr(trainer.model.config, name) for name in TOLD}


@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        (True, TOLD),
        (False, dict.fromkeys(TOLD, 0)),
        (("power", "wall"), {"parameters": 1, "signals": 1, "features": 0}),
        (("depth",), {"parameters": 0, "signals": 0, "features": 1}),
    ],
    ids=str,
)
def test_a_recipe_takes_all_conditions_of_a_file_or_those_it_names(file, tmp_path, chosen, wanted):
    """And a training of them takes steps: what is left out has no name in the surrogate's conditions."""
    found = trainer(file, tmp_path / "run", data={"conditions": chosen}, epochs=1)
    assert counts(found) == wanted
    assert {kind: len(names) for kind, names in found.surrogate.conditions.items()} == wanted
    if chosen == ("power", "wall"):
        batch = next(iter(found.data.batches()))
        given = found.surrogate.translator.inputs(batch, torch.float32)
        index = int(batch.samples[0])
        truth = found.data.file.trajectory(index, slice(0, 1)).parameters
        statistics = found.surrogate.card.parameter_statistics
        assert statistics.names == ("power",)
        back = given.parameters[0] * torch.tensor(statistics.std) + torch.tensor(statistics.mean)
        assert float(back) == pytest.approx(truth[1], rel=1e-5)
    losses = found.objective.losses(next(iter(found.data.batches())))
    assert bool(losses.isfinite().all())


def test_conditions_that_are_not_there_are_refused(file, tmp_path):
    with pytest.raises(
        ConfigError, match=r"data.conditions: there is no 'sped' for a training of task 'rollout'. Did you mean 'speed'"
    ):
        trainer(file, tmp_path / "a", data={"conditions": ("sped",)})
    description = Dataset(file).description
    assert conditions_told(True, description, "steady") == {"parameters": 2}
    assert conditions_told(True, description, "autoencoder") == {"features": 1}
    with pytest.raises(ConfigError, match="there is no 'wall' for a training of task 'steady'"):
        conditions_told(("wall",), description, "steady")
    recipe = {"name": "told", "data": {"file": str(file)}, "model": runs.RECIPE["model"] | {"parameters": 3}}
    with pytest.raises(ConfigError, match=r"model.parameters: expected 2, .* chosen by data.conditions"):
        model_config(Recipe.model_validate(recipe), Dataset(file))


def test_a_model_that_is_told_nothing_is_refused_by_name(file, monkeypatch):
    kind = MODELS["lno"]
    monkeypatch.setattr(kind, "abilities", property(lambda self: super(kind, self).abilities._replace(conditions=False)))
    recipe = {"name": "told", "data": {"file": str(file)}, "model": {"kind": "lno", "width": 8, "heads": 2}}
    with pytest.raises(ConfigError, match=r"data.conditions: .*has parameters, signals, features, and lno is told nothing"):
        model_config(Recipe.model_validate(recipe), Dataset(file))


@pytest.mark.parametrize("model", [runs.RECIPE["model"] | {"conditioned_kernels": True}, LNO], ids=["calm", "lno"])
def test_a_run_with_conditions_goes_on_to_the_bit(file, tmp_path, model):
    """From a checkpoint in the middle of an epoch, with windows that start anywhere."""
    changes: dict[str, Any] = {"save_every": 3, "keep": 50}
    if model is LNO:
        changes |= {"feeding": "prefix", "frames_at_once": 2}
    one = Trainer(_recipe(file, model, changes), tmp_path / "one", QUIET)
    assert counts(one) == TOLD
    one.fit()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    checkpoints = saved(tmp_path / "two" / "checkpoints")
    middle = len(checkpoints) // 2
    for folder in checkpoints[middle + 1 :]:
        shutil.rmtree(folder)
    (tmp_path / "two" / "checkpoints" / "latest").write_text(checkpoints[middle].name)
    shutil.rmtree(tmp_path / "two" / "surrogate")
    two = Trainer(_recipe(file, model, changes), tmp_path / "two", QUIET)
    assert 0 < two.position.step < one.position.step
    two.fit()
    runs.assert_same_run(tmp_path / "two", tmp_path / "one")


def _recipe(file: Path, model: dict[str, Any], train: dict[str, Any]) -> Recipe:
    content = {"name": "told", "data": {"file": str(file)}, "model": model}
    return Recipe.model_validate(content | {"train": {"epochs": 2, "batch_size": 4, "first_length": 2} | train})


@pytest.mark.parametrize("lead_times", ["window", "all"])
@pytest.mark.parametrize("gradient_loss", [0.0, 0.5])
def test_what_is_prescribed_is_in_no_loss_unless_asked(file, tmp_path, lead_times, gradient_loss):
    """A wrong answer there costs nothing, and moves no weight; with the switch it does."""
    known = trainer(file, tmp_path / "a", lead_times=lead_times, gradient_loss=gradient_loss)
    told = trainer(file, tmp_path / "b", lead_times=lead_times, gradient_loss=gradient_loss, prescribed_loss=True)
    batch = next(iter(known.data.batches()))
    plain = [one.objective.losses(batch).detach() for one in (known, told)]
    assert float((plain[0] - plain[1]).abs().min()) > 1e-4
    for one in (known, told):
        answer = one.model.training_answer

        def wrong(frames: Any, times: Any, answer: Any = answer) -> Any:
            found = answer(frames, times)
            away = torch.zeros_like(found.predicted)
            away[:, :, torch.from_numpy(KINDS == 4), 0] = 3.0
            return found._replace(predicted=found.predicted + away)

        one.model.training_answer = wrong
    again = [one.objective.losses(batch) for one in (known, told)]
    torch.testing.assert_close(again[0].detach(), plain[0], rtol=1e-6, atol=0)
    assert float((again[1] - plain[1]).detach().min()) > 0.1
    again[0].sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in known.model.parameters() if parameter.grad is not None)
