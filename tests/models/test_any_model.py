"""Everything that a run does, for models that are not CALM-PDE: train, evaluate, predict, report, solve."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import calm_pde as cp
from calm_pde.cli import main
from calm_pde.data.writing import write
from calm_pde.errors import InputError
from calm_pde.models.size import num_parameters
from calm_pde.report.findings import Findings
from tests.data.sets import own_source, shared_source
from tests.models import steps
from tests.models.contract import CASES
from tests.train.runs import single_thread

MODELS: dict[str, dict[str, Any]] = {
    "steps": {"model": {"kind": steps.KIND}, "train": {"feeding": "prefix"}},
    "aroma": {
        "model": {
            "kind": "aroma",
            "autoencoder": {"num_tokens": 4, "latent_channels": 4, "width": 16, "field_width": 16, "depth": 1},
            "dynamics": {"width": 16, "blocks": 1},
        },
        "train": {"stages": [1, 1]},
    },
}
FRAMES = 5
FEEDING = {"lno": "truth", "oformer": "rollout"}  # as published; the others by a prefix
BASELINES = {
    case.name: {
        "model": {"kind": case.name}
        | {key: value for key, value in case.config.items() if key not in ("dim", "node_types", "cells")},
        "train": {"feeding": FEEDING.get(case.name, "prefix"), "growth": "linear", "growth_share": 1.0, "first_length": 2},
    }
    for case in CASES
    if case.dim == 2 and case.name not in ("calm", "aroma")
}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with steps.registered(), single_thread():
        yield


def _run(name: str, folder: Path, source=shared_source) -> Path:
    """`calm train` of a recipe file."""
    write(source(20, frames=FRAMES), folder / "a.h5").close()
    recipe = (MODELS | BASELINES)[name] | {"data": {"file": str(folder / "a.h5"), "conditions": False}}
    recipe["train"] = {"epochs": 2, "batch_size": 8} | recipe["train"]
    (folder / "my.yaml").write_text(yaml.safe_dump(recipe))
    main(["train", str(folder / "my.yaml"), "--out", str(folder / "run")])
    return folder / "run"


@pytest.mark.parametrize("name", [*MODELS, *(pytest.param(name, marks=pytest.mark.slow) for name in BASELINES)])
def test_a_run_from_beginning_to_end(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _run(name, tmp_path)
    said = capsys.readouterr().out
    surrogate = cp.Surrogate.load(run)
    assert f"{num_parameters(surrogate.model):,} parameters" in said
    assert "MiB a step" in said

    main(["evaluate", str(run)])
    found = json.loads((run / "evaluation.json").read_text())
    assert found["num_samples"] == 2
    assert len(found["times"]) == FRAMES - 1
    assert found["diverged"] == 0

    main(["predict", str(run), "--input", str(tmp_path / "a.h5"), "--out", str(tmp_path / "b.h5"), "--split", "test"])
    predicted = cp.DataFile(tmp_path / "b.h5").trajectory(0).fields
    given = cp.DataFile(tmp_path / "a.h5")
    truth, points = given.trajectory(18).fields, given.description.points
    np.testing.assert_array_equal(predicted[0], truth[0])
    whole = surrogate.solve(truth[0], points)
    np.testing.assert_allclose(predicted[1:], whole, rtol=1e-5, atol=1e-6)

    main(["report", str(run)])
    assert (run / "report.html").stat().st_size > 100_000
    findings = Findings(run)
    assert (findings.layers, findings.kernels, findings.influence(np.arange(3))) == ([], [], None)

    some = surrogate.solve(truth[0], points, times=[0.5 * 2, 0.5 * 4])
    np.testing.assert_allclose(some, whole[[1, 3]], rtol=1e-6, atol=1e-6)
    if surrogate.model.config.abilities.any_times:
        assert surrogate.solve(truth[0], points, times=[0.75]).shape == (1, *truth[0].shape)
        return
    with pytest.raises(InputError, match=r"times: expected whole frames, multiples of 0\.5, since .* has no others, got 0\.75"):
        surrogate.solve(truth[0], points, times=[0.75])


@pytest.mark.parametrize("name", MODELS)
def test_meshes_of_their_own(name: str, tmp_path: Path) -> None:
    run = _run(name, tmp_path, own_source)
    main(["evaluate", str(run)])
    assert json.loads((run / "evaluation.json").read_text())["num_samples"] == 2
