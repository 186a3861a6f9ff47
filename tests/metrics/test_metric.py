"""Metrics as a list: each is gathered batch by batch as if it were one, and one of the user's own reaches every table."""

from __future__ import annotations

import io
import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from rich.console import Console

from calm_pde.metrics import METRICS, ranking_metric
from calm_pde.metrics.gathering import Gathering
from calm_pde.metrics.metric import Compared, Metric, PerSample
from calm_pde.metrics.scores import Evaluation, Scores, table
from calm_pde.records.description import Field

FIELDS = (Field(name="u", unit="m/s"), Field(name="p"))
GRID = (6, 4)


def batches(count: int = 3):
    draw = torch.Generator().manual_seed(0)
    for _ in range(count):
        target = torch.randn(2, 5, 24, 2, generator=draw, dtype=torch.float64)
        yield target + 0.1 * torch.randn(target.shape, generator=draw, dtype=torch.float64), target


def gathered(*parts) -> Scores:
    found = Gathering(GRID)
    for prediction, target in parts:
        found.add(prediction, target, None)
    return Scores.model_validate(found.scores(FIELDS))


def test_batches_together_are_one():
    parts = list(batches())
    whole = tuple(torch.cat(both) for both in zip(*parts, strict=True))
    one, three = (scores.model_dump() for scores in (gathered(whole), gathered(*parts)))
    flat = [np.array(_numbers(scores)) for scores in (one, three)]
    assert len(flat[0]) > 40
    np.testing.assert_allclose(*flat, rtol=1e-12)


def _numbers(found: object) -> list[float]:
    if isinstance(found, dict):
        return [number for name in sorted(found) for number in _numbers(found[name])]
    if isinstance(found, (list, tuple)):
        return [number for part in found for number in _numbers(part)]
    return [found] if isinstance(found, (int, float)) else []


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS)
def test_what_a_metric_declares_is_what_it_gives(metric: type[Metric]):
    found = gathered(*batches())
    assert METRICS[metric.name] is metric
    assert metric.title
    assert (found.of(metric) is not None) == metric.overall
    for field in found.fields:
        assert (field.of(metric) is not None) == metric.per_field
        assert len(getattr(field, metric.frames_name(), ())) == (5 if metric.per_frame else 0)


@pytest.mark.parametrize("metric", [one for one in METRICS.values() if one.name != "bands"], ids=lambda one: one.name)
def test_units_scale_what_has_one_and_nothing_else(metric: type[Metric]):
    small, large = (gathered(*((scale * p, scale * t) for p, t in batches())).fields[0].of(metric) for scale in (1.0, 1000.0))
    values = [value if isinstance(value, float) else value.mean for value in (small, large)]
    assert values[1] == pytest.approx(values[0] * (1000.0 if metric.unit == "field" else 1.0), rel=1e-9)


def test_numbers_over_all_points_are_those_of_numpy_under_a_mask():
    prediction, target = next(batches())
    mask = torch.arange(24) < torch.tensor([[24], [9]])
    scores = Gathering()
    scores.add(prediction.masked_fill(~mask[:, None, :, None], torch.nan), target, mask)
    field = Scores.model_validate(scores.scores(FIELDS)).fields[1]
    pairs = [(prediction[b, :, mask[b], 1], target[b, :, mask[b], 1]) for b in range(2)]
    p, t = (np.concatenate([pair[side].numpy().ravel() for pair in pairs]) for side in (0, 1))
    assert field.rmse == pytest.approx(np.sqrt(np.mean((p - t) ** 2)), rel=1e-12)
    assert field.normalized_rmse == pytest.approx(np.linalg.norm(p - t) / np.linalg.norm(t), rel=1e-12)
    assert field.max_error == pytest.approx(np.abs(p - t).max(), rel=1e-12)
    assert field.bands == {}


def test_what_is_not_finite_is_infinite_in_every_metric():
    (prediction, target), *_ = batches()
    prediction[0, 2, 3, 0] = math.nan
    numbers = (
        gathered((prediction, target)).fields[0].model_dump(exclude={"bands", "frames", "zero_frames", "given", "name", "unit"})
    )
    assert len(numbers) == 5
    assert all(math.inf in (number if isinstance(number, dict) else {0: number}).values() for number in numbers.values())


class Agreement(PerSample):
    """The correlation of prediction and truth in each frame."""

    name: ClassVar[str] = "agreement"
    title: ClassVar[str] = "correlation"
    better: ClassVar = "higher"
    per_frame: ClassVar[bool] = True

    @staticmethod
    def errors(prediction, target, mask=None):
        return (prediction * target).sum(dim=2) / (prediction.norm(dim=2) * target.norm(dim=2))


@pytest.fixture
def agreement(monkeypatch: pytest.MonkeyPatch) -> type[Metric]:
    monkeypatch.setitem(METRICS, "agreement", Agreement)
    return Agreement


def test_one_more_metric_is_in_the_numbers_and_in_the_table(agreement):
    from tests.report.drawings import evaluation

    found = gathered(*batches())
    assert 0.9 < found.overall(agreement).mean < 1.0
    assert len(found.fields[0].curve(agreement)) == 5
    whole = evaluation(5, FIELDS)
    content = whole.model_dump() | found.model_dump() | {"baseline": whole.baseline.model_dump() | found.model_dump()}
    whole = Evaluation.model_validate(content)
    assert Evaluation.model_validate_json(whole.model_dump_json()) == whole
    console = Console(width=200, file=io.StringIO())
    console.print(table(whole))
    assert "correlation" in console.file.getvalue()
    assert f"{found.overall(agreement).mean:.4f}" in console.file.getvalue()


def test_names_that_rank_models(agreement):
    assert [ranking_metric(name) for name in ("frame", "spacetime", "relative_l2", "agreement")] == [
        "relative_l2",
        "relative_l2_spacetime",
        "relative_l2",
        "agreement",
    ]
    for name in ("rmse", "relative_l3"):
        with pytest.raises(ValueError, match=rf"metric: there is none '{name}'.*relative_l2"):
            ranking_metric(name)


def test_a_metric_that_promises_more_than_it_says_is_told():
    class Promising(Metric):
        name: ClassVar[str] = "promising"
        title: ClassVar[str] = "promising"
        per_frame: ClassVar[bool] = True

        def add(self, compared: Compared) -> None:
            pass

        def of_field(self, place: int) -> float:
            return 0.0

    with pytest.raises(TypeError, match="Promising declares per_frame"):
        Promising().of_frames(0)
    with pytest.raises(TypeError, match="Promising declares overall"):
        Promising().of_all()
