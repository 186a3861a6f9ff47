"""Results as files: what was written is read back, in the words of before too."""

from __future__ import annotations

import json
import math

import pytest

from calm_pde.bench.measured.result import RESULT, VALIDATED, Failure, Result, load, save
from calm_pde.errors import FileError
from tests.bench.campaigns import result, validated


def test_a_result_is_read_back(tmp_path):
    save(tmp_path, result())
    assert load(tmp_path) == result()


def test_results_of_before_are_read(tmp_path):
    """They call the latent numbers `latent_size`, know neither the metric nor others beside it, and tell the smallest
    validation error in the curve alone."""
    unknown = {"metric", "others", "frame_errors", "validation", "setting"}
    content = result().model_dump(mode="json", exclude=unknown) | {"curve": [[60.0, 0.4], [120.0, 0.125], [180.0, 0.25]]}
    content["latent_size"] = content.pop("latent_numbers")
    (tmp_path / RESULT).write_text(json.dumps(content))
    found = load(tmp_path)
    assert found == result(curve=((60.0, 0.4), (120.0, 0.125), (180.0, 0.25)), validation=0.125)
    assert isinstance(found, Result)
    assert (found.frame_errors, found.setting) == ((), "")
    (tmp_path / RESULT).write_text(json.dumps(content | {"curve": []}))
    assert load(tmp_path) == result(curve=(), validation=math.inf)


def test_a_run_of_a_search_is_read_back_and_replaces_a_failure(tmp_path):
    save(tmp_path, Failure(data="sample", model="fno", title="FNO", seed=0, reason="x"))
    for error in (0.25, math.inf):
        save(tmp_path, validated(validation=error))
        assert load(tmp_path) == validated(validation=error)
    assert [path.name for path in tmp_path.iterdir()] == [VALIDATED]


def test_other_words_are_refused(tmp_path):
    (tmp_path / RESULT).write_text(json.dumps(result().model_dump(mode="json") | {"latent_siz": 3}))
    with pytest.raises(FileError, match="unknown key 'latent_siz'"):
        load(tmp_path)
