"""From arrays with conditions through training, evaluation, report and solve: the model uses what it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calm_pde as cp
from calm_pde.data.storage import DataFile
from calm_pde.report.content import content
from calm_pde.report.findings import Findings
from calm_pde.train.config import Recipe
from calm_pde.train.fit import Run
from tests.surrogate.test_surrogate import one_thread  # noqa: F401

MODEL: dict[str, Any] = {
    "kind": "calm",
    "encoder": {"channels": [16], "num_queries": [8], "receptive_field": [0.4], "temperature": [1.0]},
    "decoder": {"channels": [16], "num_queries": [12], "receptive_field": [0.5, 0.5], "temperature": [1.0, 1.0]},
    "processor": {"heads": 2, "blocks": 1},
}
DRAW = np.random.default_rng(0)
POINTS, TIMES, COUNT = DRAW.uniform(size=(48, 2)), 0.2 * np.arange(6), 50
KINDS = (POINTS[:, 0] < 0.15).astype(int)


def heated(path: Path) -> DataFile:
    """A shape that decays at the rate of a parameter and is pushed by a signal, from one first frame; a wall that is known."""
    rate, wall = np.exp(DRAW.uniform(np.log(0.1), np.log(20), COUNT)), DRAW.uniform(-1, 1, (COUNT, 6))
    shape = np.sin(np.pi * POINTS[:, 0]) * (0.5 + POINTS[:, 1])
    pushed = np.concatenate([np.zeros((COUNT, 1)), np.cumsum((wall[:, 1:] + wall[:, :-1]) / 10, axis=1)], axis=1)
    decay = np.exp(-0.3 * np.log(10 * rate)[:, None, None] * TIMES[:, None])
    fields = np.where(KINDS == 1, wall[:, :, None], shape * decay + pushed[:, :, None] * POINTS[:, 1])[..., None]
    fields[:, 0] = shape[:, None]
    return cp.from_arrays(
        POINTS,
        fields.astype(np.float32),
        TIMES,
        out=path,
        names=["temperature"],
        parameters={"rate": rate},
        signals={"wall": wall},
        node_type=KINDS,
        node_types={1: "wall"},
        prescribed={"temperature": ["wall"]},
        units={"rate": "1/s"},
    )


def trained(file: DataFile, conditions: bool, epochs: int) -> Run:
    data = {"file": file.path, "conditions": conditions}
    train = {"epochs": epochs, "batch_size": 8, "learning_rate": 3e-3}
    recipe = Recipe.model_validate({"name": "heated", "data": data, "model": MODEL, "train": train})
    return cp.fit(recipe, file.path.parent / f"{conditions}_{epochs}")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> DataFile:
    return heated(tmp_path_factory.mktemp("heated") / "a.h5")


@pytest.fixture(scope="module")
def run(file: DataFile) -> Run:
    return trained(file, True, epochs=1)


def test_from_arrays_to_answers(file: DataFile, run: Run) -> None:
    """What is prescribed is answered exactly, and a folder answers as the run does."""
    surrogate = cp.Surrogate.load(file.path.parent / "True_1")
    known = surrogate.card.parameter_statistics
    assert known is not None
    assert known.logarithmic == (True,)
    index = int(file.indices("test")[0])
    answer, frames = answered(surrogate, file, index), file.trajectory(index).fields
    np.testing.assert_array_equal(answer[:, KINDS == 1], frames[1:, KINDS == 1])
    np.testing.assert_array_equal(answered(run.surrogate, file, index), answer)
    np.testing.assert_allclose(cp.evaluate(run).sample_errors[0], error(answer, frames), rtol=0.2)


def answered(surrogate: cp.Surrogate, file: DataFile, index: int, rate: float | None = None) -> np.ndarray:
    """A trajectory of the file, with its rate or another one."""
    found = file.trajectory(index)
    assert found.parameters is not None
    assert found.signals is not None
    return surrogate.solve(
        found.fields[0],
        POINTS,
        node_type=KINDS,
        parameters={"rate": found.parameters[0] if rate is None else rate},
        signals={"wall": found.signals[:, 0]},
        prescribed={"temperature": found.fields[1:, :, 0]},
    )


def error(answer: np.ndarray, frames: np.ndarray) -> float:
    """Where nothing is prescribed."""
    truth, free = frames[1:], KINDS == 0
    return float(np.linalg.norm((answer - truth)[:, free]) / np.linalg.norm(truth[:, free]))


@pytest.mark.slow
def test_a_model_that_is_told_conditions_uses_them(file: DataFile) -> None:
    """Its error is less than half of that without; with the rates of others it more than doubles."""
    run = trained(file, True, epochs=40)
    told, plain = cp.evaluate(run), cp.evaluate(trained(file, False, epochs=40))
    assert told.relative_l2.mean < 0.5 * plain.relative_l2.mean
    indices = file.indices("test").tolist()
    rates = [file.trajectory(index).parameters for index in indices]
    errors = []
    for shift in (0, 2):
        of_others = [rates[(place + shift) % len(rates)] for place in range(len(rates))]
        pairs = [(index, rate[0]) for index, rate in zip(indices, of_others, strict=True) if rate is not None]
        found = [error(answered(run.surrogate, file, index, rate), file.trajectory(index).fields) for index, rate in pairs]
        errors.append(np.mean(found))
    assert errors[1] > 2 * errors[0]


def test_a_report_tells_the_conditions_of_its_samples(file: DataFile, run: Run) -> None:
    shown = content(Findings(run.surrogate, file), samples=3)
    (table,) = [table for table in shown["tables"] if table["title"] == "Conditions of the samples"]
    assert table["columns"] == ["trajectory", "", "rate [1/s]", "wall"]
    assert len(table["rows"]) == 3
    index, rank, rate, wall = table["rows"][0]
    found = file.trajectory(int(index))
    assert found.parameters is not None
    assert found.signals is not None
    assert (rank, rate) == ("worst", f"{found.parameters[0]:.4g}")
    assert wall == f"{found.signals.min():.4g} … {found.signals.max():.4g}"
    assert shown["tokens"] is not None
    assert shown["conditions"] == {
        "parameters": [{"name": "rate", "unit": "1/s", "told": True}],
        "signals": [{"name": "wall", "unit": "", "told": True}],
        "prescribed": [{"field": "temperature", "where": "wall"}],
    }
    for sample in shown["samples"]:
        found = file.trajectory(int(sample["name"].split()[1]))
        assert sample["parameters"] == pytest.approx(found.parameters)
        assert sample["signals"]["times"] == pytest.approx(TIMES)
        np.testing.assert_allclose(sample["signals"]["values"], np.asarray(found.signals).T, rtol=1e-6)


def test_a_report_says_which_conditions_the_model_is_not_told(file: DataFile, tmp_path: Path) -> None:
    """Those that it is told come first, with their own numbers."""
    data = {"file": file.path, "conditions": ["wall"]}
    train = {"epochs": 1, "batches_per_epoch": 1}
    recipe = Recipe.model_validate({"name": "part", "data": data, "model": MODEL, "train": train})
    page = content(Findings(cp.fit(recipe, tmp_path / "run").surrogate, file), samples=3)
    assert [one["told"] for kind in ("parameters", "signals") for one in page["conditions"][kind]] == [False, True]
    (table,) = [table for table in page["tables"] if table["title"] == "Conditions of the samples"]
    assert table["columns"] == ["trajectory", "", "wall", "rate [1/s], not told"]
    found = file.trajectory(int(table["rows"][0][0]))
    assert found.parameters is not None
    assert table["rows"][0][3] == f"{found.parameters[0]:.4g}"
