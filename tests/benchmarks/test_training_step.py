"""The benchmark of the training step: its arithmetic, without the minutes of its measurements."""

from __future__ import annotations

import json

import pytest

from benchmarks import training_step
from benchmarks.training_step import NARROW, as_it_is, floor, in_bfloat16, setting


def test_the_floor_is_work_over_peak_and_bytes_over_bandwidth(monkeypatch):
    """A machine twice as fast has half of each; what a fresh process tells is held against it."""
    model, *_ = setting(2)
    calculation, movement = floor(model, 2, 10**10, 1e11, 1e10)
    assert calculation == 0.1
    assert movement > 8 * sum(parameter.numel() for parameter in model.parameters()) / 1e10
    assert floor(model, 2, 10**10, 2e11, 2e10) == pytest.approx((calculation / 2, movement / 2))
    told = [{"straightforward": 2.0, "ours": 0.5}, 1e11, 1e10]
    monkeypatch.setattr(training_step, "in_fresh_process", lambda *_: json.dumps(told))
    factor = 0.5 / (calculation + movement)
    assert as_it_is(model, 2, 10**10).startswith("straightforward 2000 ms, ours 500 ms (ratio **4.00**); floor")
    assert f"**{factor:.2f}** times" in as_it_is(model, 2, 10**10)


def test_bfloat16_is_told_where_it_was_measured():
    assert "ratio to straightforward float32 **4.00**" in in_bfloat16({"straightforward": [2.0, 2.1], NARROW: [0.5, 0.6]})
    assert in_bfloat16({"straightforward": [2.0]}).startswith("bfloat16: not measured")
