"""Error and training figures hold their numbers."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.metrics.scores import Spread
from calm_pde.report.curve_figures import error_figure, training_figure
from tests.report.drawings import FIELDS, TRAINING, evaluation


def test_error_against_time():
    found = evaluation(5)
    figure = error_figure(found, trained_until=1.5)
    assert [place.get_title() for place in figure.axes] == ["u", "pressure"]
    for place in figure.axes:
        mean, baseline, horizon = place.lines
        np.testing.assert_array_equal(mean.get_xdata(), found.times)
        np.testing.assert_allclose(mean.get_ydata(), 0.02 * np.arange(1, 6))
        np.testing.assert_allclose(baseline.get_ydata(), 0.5 * np.arange(1, 6))
        assert horizon.get_xdata() == [1.5, 1.5]
        band = place.collections[0].get_paths()[0].vertices
        assert (band[:, 1].min(), band[:, 1].max()) == pytest.approx((0.6 * 0.02, 1.4 * 0.1))
        assert place.get_yscale() == "log"
    assert len(error_figure(found).axes[0].lines) == 2


def test_what_diverged_is_a_gap():
    found = evaluation(4)
    bad = found.fields[0].model_copy(
        update={"frames": (*found.fields[0].frames[:3], Spread(mean=float("inf"), std=float("nan")))}
    )
    figure = error_figure(found.model_copy(update={"fields": (bad, found.fields[1])}))
    assert np.isnan(figure.axes[0].lines[0].get_ydata()).tolist() == [False, False, False, True]
    assert np.isfinite(figure.axes[0].get_ylim()).all()


def test_without_time_one_bar_per_field():
    figure = error_figure(evaluation(1))
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == [field.name for field in FIELDS]


def test_training():
    top, middle, bottom = training_figure(TRAINING).axes
    np.testing.assert_array_equal(top.lines[0].get_ydata(), [1.0, 0.4, np.nan, 0.2])
    assert list(top.lines[1].get_xdata()) == [2, 4]
    assert list(middle.lines[0].get_ydata()) == list(TRAINING.learning_rate)
    assert list(bottom.lines[0].get_ydata()) == list(TRAINING.length)
