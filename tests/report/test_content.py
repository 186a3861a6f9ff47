"""The content of a report against the model and the data it tells of."""

from __future__ import annotations

import copy
import json
import shutil
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.data.storage import DataFile
from calm_pde.data.windows import Window
from calm_pde.errors import FileError
from calm_pde.report.content import content
from calm_pde.report.findings import Findings
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.config import initial_model
from tests.report import runs
from tests.report.unpacking import unpacked
from tests.train.runs import one_thread  # noqa: F401


@cache
def found(kind: str) -> Findings:
    return Findings(runs.trained(kind))


@cache
def told(kind: str) -> dict[str, Any]:
    return content(found(kind))


@pytest.mark.parametrize("kind", runs.SETS)
def test_samples_are_the_surrogate_beside_the_data(kind):
    run, page = runs.trained(kind), told(kind)
    file, surrogate = DataFile(run.parent / "data.h5"), Surrogate.load(run)
    assert [sample["rank"] for sample in page["samples"]] == ["worst", "median", "best", None, None]
    for sample in page["samples"]:
        stored = file.trajectory(int(sample["name"].split()[1]))
        mesh = page["meshes"][sample["mesh"]]
        points = file.description.points if stored.points is None else stored.points
        assert points is not None
        assert np.allclose(unpacked(mesh["points"]), points, atol=1e-6)
        answer = surrogate.solve(stored.fields[0], points)
        for channel, field in enumerate(sample["fields"]):
            truth, residual = unpacked(field["truth"]), unpacked(field["residual"])
            both = np.concatenate([stored.fields[..., channel], answer[..., channel]])
            assert np.abs(truth - stored.fields[..., channel]).max() <= np.ptp(stored.fields[..., channel]) / 65_535
            assert np.abs((truth + residual)[1:] - answer[..., channel]).max() <= np.ptp(both) / 65_535 + 1e-5
    worst, median, best, *others = [sample["error"] for sample in page["samples"]]
    assert best <= min(others) <= max(others) <= worst
    assert median == np.median([worst, median, best, *others])


@pytest.mark.parametrize("kind", runs.SETS)
def test_content_is_plain_json_and_names_match(kind):
    page = told(kind)
    json.dumps(page, allow_nan=False)
    assert len(page["errors"]["times"]) == len(page["errors"]["fields"][0]["mean"]) == runs.FRAMES - 1
    assert page["training"]["epochs"] == [1, 2, 3, 4]
    assert (page["error_map"] is None) == (kind == "meshes")
    assert {entry[0] for entry in page["facts"]} >= {"Model", "Data", "Training", "Seed", "Hardware", "Versions", "Date"}
    assert page["headline"]["speedup"] == pytest.approx(0.5 / page["headline"]["seconds"])


@pytest.mark.parametrize("kind", ["mesh", "meshes"])
def test_samples_are_not_predicted_again(kind, monkeypatch):
    """The frames after the first are those of the evaluation; where no room was left for them, they are the same."""
    findings, frames, rollout = copy.copy(found(kind)), [], Surrogate.rollout
    kept = findings.sample(0)
    monkeypatch.setattr(Surrogate, "rollout", lambda self, batch: frames.append(batch.fields.shape[1]) or rollout(self, batch))
    content(findings)
    assert set(frames) == {2}
    findings._answers = {}
    again = findings.sample(0)
    assert frames[-1] == runs.FRAMES
    assert np.abs(again.prediction - kept.prediction).max() < 1e-5


def test_the_error_map_is_the_mean_over_samples_and_frames():
    findings, page = found("mesh"), told("mesh")
    samples = [findings.sample(place) for place, _ in findings.ranked]
    wanted = np.mean([np.abs(one.prediction - one.truth)[1:].mean(axis=0) for one in samples], axis=0)
    for channel, array in enumerate(page["error_map"]["fields"]):
        assert np.abs(unpacked(array) - wanted[:, channel]).max() <= np.ptp(wanted[:, channel]) / 65_535 + 1e-6


def test_a_sample_that_diverged_is_left_out_of_the_map():
    findings = copy.copy(found("mesh"))
    findings._sums, findings._count = None, 0
    batch = next(findings.data.batches([[Window(place, 0, runs.FRAMES) for place in (0, 1)]]))
    answer = batch.fields[:, 1:].double() + 2.0
    answer[1, 0, 0, 0] = torch.nan
    findings._observe(batch, answer)
    assert findings.error_map == pytest.approx(np.full(batch.fields.shape[2:], 2.0))


def test_paths_begin_at_the_seeded_construction_and_end_at_the_saved_weights():
    findings, page = found("mesh"), told("mesh")
    surrogate = findings.surrogate
    recipe = findings.surrogate.card.provenance["recipe"]
    start = initial_model(surrogate.model.config, findings.data, recipe["train"]["seed"]).state_dict()
    last = surrogate.card.metrics["epoch"]
    for layer in page["layers"]:
        part, depth = layer["name"].split()
        key = f"{part}.{int(depth) - 1}.queries"
        path = unpacked(layer["path"])
        physical = [surrogate.card.box.to_physical(weights[key].numpy()) for weights in (start, surrogate.model.state_dict())]
        assert np.allclose(path[[0, -1]], physical, atol=1e-6)
        assert layer["epochs"] == list(range(last + 1))


def test_a_run_without_a_record_shows_start_and_end(tmp_path):
    run = shutil.copytree(runs.trained("mesh"), tmp_path / "run")
    shutil.rmtree(run / "checkpoints")
    (run / "metrics.jsonl").unlink()
    page = content(Findings(run))
    assert page["training"] is None
    whole = told("mesh")["layers"]
    for layer, known in zip(page["layers"], whole, strict=True):
        assert layer["epochs"] == [0, known["epochs"][-1]]
        assert np.array_equal(unpacked(layer["path"]), unpacked(known["path"])[[0, -1]])


def test_token_influence_is_that_of_the_model():
    findings, page = found("grid"), told("grid")
    tokens = page["tokens"]
    sample = page["samples"][tokens["sample"]]
    assert sample["rank"] == "median"
    assert unpacked(tokens["positions"]).shape == (8, 2)
    mesh = page["meshes"][tokens["mesh"]]
    influence = findings.influence(np.arange(mesh["total"]))
    assert influence is not None
    assert influence.last is not None
    for name, wanted in (("at_once", influence.at_once), ("last", influence.last)):
        assert np.abs(unpacked(tokens["fields"][0][name]) - wanted[..., 0]).max() <= np.ptp(wanted) / 255 + 1e-6


def test_as_many_samples_as_fit():
    findings = found("mesh")
    assert len(content(findings, room=0)["samples"]) == min(3, len(findings.ranked))
    assert len(content(findings, samples=50)["samples"]) == len(findings.ranked)


def test_periodic_paths_end_inside_the_box():
    for layer in told("grid")["layers"]:
        end = unpacked(layer["path"])[-1]
        assert (end >= 0).all()
        assert (end <= 1).all()


def test_a_surrogate_that_does_not_know_its_data(tmp_path):
    surrogate = Surrogate.load(runs.trained("grid"))
    card = surrogate.card.model_copy(update={"provenance": {}})
    Surrogate(surrogate.model, card).save(tmp_path / "surrogate")
    with pytest.raises(FileError, match="--data"):
        Findings(tmp_path / "surrogate")
    page = content(Findings(tmp_path / "surrogate", runs.trained("grid").parent / "data.h5"))
    assert page["training"] is None
    assert [layer["epochs"] for layer in page["layers"]] == [[page["layers"][0]["epochs"][-1]]] * len(page["layers"])


def test_building_twice_gives_the_same_page():
    torch.manual_seed(1)
    first = content(found("line"))
    torch.manual_seed(2)
    assert content(found("line")) == first == told("line")
