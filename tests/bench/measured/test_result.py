"""Results as files: what was written is read back, in the words of before too."""

from __future__ import annotations

import json

import pytest

from calm_pde.bench.measured.result import RESULT, load, save
from calm_pde.errors import FileError
from tests.bench.campaigns import result


def test_a_result_is_read_back(tmp_path):
    save(tmp_path, result())
    assert load(tmp_path) == result()


def test_results_of_before_are_read(tmp_path):
    """They call the latent numbers `latent_size`, and know neither the metric nor others beside it."""
    content = result().model_dump(mode="json", exclude={"metric", "others"})
    content["latent_size"] = content.pop("latent_numbers")
    (tmp_path / RESULT).write_text(json.dumps(content))
    assert load(tmp_path) == result()


def test_other_words_are_refused(tmp_path):
    (tmp_path / RESULT).write_text(json.dumps(result().model_dump(mode="json") | {"latent_siz": 3}))
    with pytest.raises(FileError, match="unknown key 'latent_siz'"):
        load(tmp_path)
