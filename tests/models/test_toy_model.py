"""A model is one folder and one line in the registry: a toy in a folder of its own goes all the way."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import calm_pde as cp
from calm_pde.bench.measured.result import Result
from calm_pde.bench.runs import campaign
from calm_pde.cli import main
from calm_pde.models import MODELS
from tests.bench.campaigns import MEASURED, job
from tests.train.runs import SAMPLE, single_thread

CONFIG = """
from typing import ClassVar

from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import StepwiseConfig

SIZES = {"dim": 2, "in_channels": 1, "out_channels": 1}


class ToyConfig(StepwiseConfig):
    title: ClassVar[str] = "Toy"
    presets: ClassVar = {"navier_stokes_2d": SIZES, "navier_stokes_2d_small": SIZES}
    practice: ClassVar[Practice] = Practice(
        train={"feeding": "truth", "learning_rate": 1e-2}, problems={"navier_stokes_2d": {"batch_size": 4, "epochs": 3}}
    )

    def latent_numbers(self, num_points):
        return num_points * self.in_channels

    def build(self, mesh=None, seed=0):
        from toy_model.model import Toy

        return Toy(self)
"""
MODEL = '''
import torch
from torch import nn

from calm_pde.models.stepwise import Stepwise


class Toy(Stepwise):
    """u(t + 1) = u(t) + W u(t), with the same W at every point."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.change = nn.Parameter(torch.zeros(config.out_channels, config.in_channels))

    def geometry(self, points, mask, node_type, queries):
        if queries is not None:
            raise self.refusal("queries", "answer anywhere", "Ask at the points.")
        return None

    def step(self, states, geometry):
        return states + states @ self.change.T
'''


@pytest.fixture
def _toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = tmp_path / "code" / "toy_model"
    folder.mkdir(parents=True)
    for name, text in (("__init__", ""), ("config", CONFIG), ("model", MODEL)):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setitem(MODELS, "toy", importlib.import_module("toy_model.config").ToyConfig)  # the one line
    monkeypatch.setattr(campaign, "measured", lambda _: MEASURED)  # a process of its own, which would not know the toy
    with single_thread():
        yield


@pytest.mark.usefixtures("_toy")
def test_a_toy_goes_all_the_way(tmp_path: Path) -> None:
    made = job(tmp_path / "out", models={"toy": None}, paper={})
    made.run()
    (found,) = made.campaign.found().values()
    assert isinstance(found, Result), found
    assert (found.title, found.kind, found.parameters, found.steps) == ("Toy", "toy", 1, 4)
    recipe = made.trials[0].recipe.train
    assert (recipe.feeding, recipe.learning_rate, recipe.batch_size) == ("truth", 1e-2, 4)
    assert "| Toy |" in (tmp_path / "out" / "table.md").read_text()

    run = made.campaign.folder(made.trials[0])
    surrogate = cp.Surrogate.load(run)
    assert found.latent_numbers == len(cp.DataFile(SAMPLE).description.points)
    main(["evaluate", str(run)])
    assert json.loads((run / "evaluation.json").read_text())["relative_l2"]["mean"] == pytest.approx(found.error)
    main(["report", str(run)])
    assert "Toy, 1 parameters" in (run / "report.html").read_text()
    main(["predict", str(run), "--input", str(SAMPLE), "--out", str(tmp_path / "answers.h5"), "--split", "test"])
    answer = cp.DataFile(tmp_path / "answers.h5").trajectory(0).fields
    growth = 1 + float(surrogate.model.state_dict()["change"])
    assert growth != 1
    mean = surrogate.card.statistics.mean[0]
    np.testing.assert_allclose(answer[1] - mean, growth * (answer[0] - mean), rtol=1e-3, atol=1e-4)
    with pytest.raises(cp.errors.InputError, match="bake: expected a model that can bake, got Toy, which can't"):
        surrogate.bake(cp.DataFile(SAMPLE).description.points)
